{{ config(mode='append', on_schema_change='sync_all_columns') }}
SELECT * FROM {{ stream('orders') }}
