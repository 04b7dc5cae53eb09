{{ config(mode='cdc', keys='customer_id', on_schema_change='fail') }}
SELECT customer_id, email, points FROM {{ stream('customer_changes') }} WHERE points >= 100
