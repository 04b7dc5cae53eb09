{{ config(mode='append', on_schema_change='fail') }}
SELECT * FROM {{ stream('orders') }}
