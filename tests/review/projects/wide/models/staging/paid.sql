{{ config(mode='append', keys='payment_id') }}
SELECT payment_id, account_id, {{ mask('iban') }} AS iban, {{ amount_columns('amount', var('currency')) }}, purpose, happened_at
FROM {{ stream('payments') }}
WHERE {{ other_than('account_id', var('test_account')) }}
