{{ config(mode='upsert', keys='account_id', sequence_by='changed_at') }}
SELECT account_id, {{ mask('owner') }} AS owner, opened_at, changed_at
FROM {{ stream('accounts') }}
WHERE {{ other_than('account_id', var('test_account')) }}
