{{ config(mode='view') }}
SELECT id, low FROM {{ ref('files') }}
