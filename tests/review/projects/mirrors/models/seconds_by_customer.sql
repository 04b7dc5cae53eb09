{{ config(mode='upsert', keys='customer_id') }}
SELECT customer_id, sum(seconds) AS seconds FROM {{ stream('calls') }} GROUP BY customer_id
