{{ config(mode='append') }}
SELECT t.ticket_id, c.call_id, c.seconds, t.opened_at
FROM {{ stream('tickets') }} AS t
JOIN {{ stream('calls') }} AS c
ON t.customer_id = c.customer_id AND c.began_at BETWEEN t.opened_at - INTERVAL 1 HOUR AND t.opened_at
