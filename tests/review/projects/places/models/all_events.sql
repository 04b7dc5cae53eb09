{{ config(mode='append') }}
SELECT * FROM {{ stream('events') }}
UNION ALL
SELECT * FROM {{ stream('former_events') }}
