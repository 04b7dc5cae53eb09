{{ config(mode='upsert', keys='customer_id') }}
SELECT customer_id, sum(amount) AS amount, max(lower(status)) AS status
FROM {{ stream('orders') }}
GROUP BY customer_id
