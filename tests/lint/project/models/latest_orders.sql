{{ config(mode='upsert', keys='order_id', sequence_by='updated_at') }}
SELECT order_id, customer_id, amount, status, created_at, updated_at
FROM {{ stream('orders') }}
