{{ config(mode='append') }}
SELECT payment_id, account_id, amount_cents, happened_at
FROM {{ stream('paid') }}
WHERE amount_cents > 1000000
