{{ config(mode='append', late='dead_letter') }}
SELECT window.start AS hour, count(*) AS clicks, sort_array(collect_list(click)) AS which
FROM {{ stream('clicks') }}
GROUP BY window(at, '1 hour')
