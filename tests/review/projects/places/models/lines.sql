{{ config(mode='append') }}
SELECT id, a, b FROM {{ stream('lines') }}
