{{ config(mode='scd2', keys='order_id', sequence_by='updated_at', track_columns='status') }}
SELECT order_id, status, updated_at, record
FROM {{ stream('orders') }}
