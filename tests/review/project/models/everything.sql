{{ config(mode='append') }}
SELECT * FROM {{ stream('page_views') }}
