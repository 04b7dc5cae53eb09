{{ config(mode='append') }}
SELECT c.call_id, c.began_at, k.name, k.city FROM {{ stream('calls') }} AS c
LEFT JOIN {{ ref('customers') }} AS k ON k.customer_id = c.customer_id
