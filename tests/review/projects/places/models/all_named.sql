{{ config(mode='append') }}
WITH
    now AS (SELECT note, id, kind FROM {{ stream('events') }}),
    former AS (SELECT said, key, what FROM {{ stream('former_events') }})
SELECT * FROM now
UNION ALL
SELECT * FROM former
