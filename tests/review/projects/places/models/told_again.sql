{{ config(mode='table') }}
SELECT * FROM {{ ref('told') }} WHERE id IN (SELECT id FROM {{ ref('files') }})
