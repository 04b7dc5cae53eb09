{{ config(mode='append') }}
SELECT payment_id, order_id, amount, paid_at
FROM {{ stream('payments') }}
