{{ config(mode='append') }}
SELECT * FROM {{ stream('events') }}
