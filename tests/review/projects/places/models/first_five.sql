{{ config(mode='table') }}
SELECT id, low FROM {{ ref('files') }} ORDER BY 1 LIMIT 5
