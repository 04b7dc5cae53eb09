{{ config(mode='cdc', keys='order_id', sequence_by='updated_at') }}
SELECT order_id, status, updated_at, record
FROM {{ stream('orders') }}
