{{ config(mode='view') }}
SELECT * FROM {{ ref('told') }}
UNION ALL
SELECT id, low, high FROM {{ ref('files') }}
