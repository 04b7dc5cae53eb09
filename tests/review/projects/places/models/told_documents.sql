{{ config(mode='table') }}
SELECT id, to_json(struct(*)) AS document FROM {{ ref('told') }}
