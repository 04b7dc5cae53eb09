{{ config(mode='cdc', keys='customer_id', sequence_by='_change.position') }}
SELECT customer_id, {{ tidy('name') }} AS name, email, city, points, _change.position AS position
FROM {{ stream('customer_changes') }}
