{{ config(mode='upsert', keys=['customer_id', 'status'], sequence_by='changed_at') }}
SELECT customer_id, status, price, changed_at
FROM {{ stream('customers') }}
