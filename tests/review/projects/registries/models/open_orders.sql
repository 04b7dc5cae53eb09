{{ config(mode='upsert', keys='order_id') }}
SELECT order_id, amount FROM {{ stream('orders') }}
