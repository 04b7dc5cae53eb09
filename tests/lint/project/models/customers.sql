{{ config(mode='upsert', keys='customer_id', sequence_by='changed_at') }}
SELECT customer_id, name, changed_at
FROM {{ stream('customers') }}
