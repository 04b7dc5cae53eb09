{{ config(mode='append') }}
SELECT id, low, high FROM {{ stream('files') }}
