-- stream('clicks') is the table of the model clicks, read as it grows.
{{ config(mode='append', tags=['web']) }}
SELECT view_id, visitor, customer_id, viewed_at
FROM {{ stream('clicks') }}
WHERE page = '/checkout'
