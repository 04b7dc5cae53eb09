{{ config(mode='table') }}
SELECT low, high, count(*) AS files FROM {{ ref('files') }} GROUP BY 1, 2
