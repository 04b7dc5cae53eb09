{{ config(mode='append') }}
SELECT * FROM {{ stream('payments') }}
