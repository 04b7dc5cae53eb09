{{ config(mode='append') }}
SELECT window(began_at, '1 hour').start AS hour, count(*) AS calls, sum(seconds) AS seconds
FROM {{ stream('calls') }}
GROUP BY window(began_at, '1 hour')
