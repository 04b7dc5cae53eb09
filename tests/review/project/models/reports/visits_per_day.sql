-- A day's row is there from its first view on, and replaced by every batch that changes it.
{{ config(mode='upsert', keys=['day', 'referrer']) }}
SELECT
    CAST(window.start AS date) AS day,
    coalesce(referrer, 'direct') AS referrer,
    count(*) AS views
FROM {{ stream('page_views') }}
GROUP BY window(viewed_at, '1 day'), coalesce(referrer, 'direct')
