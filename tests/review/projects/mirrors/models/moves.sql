{{ config(mode='scd2', keys='customer_id', sequence_by='_change.position', track_columns='city') }}
SELECT customer_id, city, _change.position AS position FROM {{ stream('customer_changes') }}
