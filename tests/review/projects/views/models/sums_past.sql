{{ config(mode='scd2', keys='customer') }}
SELECT customer, amount
FROM {{ ref('sums') }}
