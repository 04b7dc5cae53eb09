{{ config(mode='append') }}
SELECT DISTINCT customer_id, began_at FROM {{ stream('calls') }}
