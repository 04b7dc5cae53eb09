{{ config(mode='materialized_view') }}
SELECT customer, sum(amount) AS amount
FROM {{ ref('orders') }}
GROUP BY customer
