{{ config(mode='append') }}
SELECT * FROM {{ stream('orders') }}
