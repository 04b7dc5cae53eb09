{{ config(mode='append') }}
SELECT view_id, visitor, page, viewed_at
FROM {{ stream('clicks') }}
