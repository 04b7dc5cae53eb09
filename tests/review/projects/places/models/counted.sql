{{ config(mode='upsert', keys='kind') }}
SELECT kind, count(*) AS events FROM {{ stream('events') }} GROUP BY kind
