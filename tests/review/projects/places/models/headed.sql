{{ config(mode='append') }}
SELECT id, first, last FROM {{ stream('headed') }}
