{{ config(mode='table') }}
SELECT x, z FROM {{ ref('told') }} AS t(x, y, z)
