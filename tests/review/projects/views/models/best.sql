{{ config(mode='table') }}
SELECT customer, amount
FROM {{ ref('sums') }}
ORDER BY amount DESC
LIMIT 10
