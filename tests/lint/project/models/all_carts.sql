{{ config(mode='append') }}
SELECT cart_id, customer_id, amount, weight, status, changed_at
FROM {{ stream('carts') }}
