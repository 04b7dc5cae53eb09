{{ config(mode='append') }}
SELECT order_id AS id, status AS what FROM {{ stream('orders') }}
UNION ALL
SELECT customer_id AS id, name AS what FROM {{ stream('customers') }}
