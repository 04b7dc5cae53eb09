-- A window lands once, when the stream's watermark has passed its end.
{{ config(mode='append') }}
SELECT
    window.start AS window_start,
    window.end AS window_end,
    count(*) AS views,
    count_if({{ page_of('url') }} = '/checkout') AS checkouts
FROM {{ stream('page_views') }}
GROUP BY window(viewed_at, '10 minutes') -- noqa: LK007 late views are to count
