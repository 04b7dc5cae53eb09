{{ config(mode='table') }}
SELECT id, low, high FROM {{ ref('files') }}
