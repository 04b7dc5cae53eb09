-- A view of the table of orders: the days that a change of it reaches are computed anew.
{{ config(mode='materialized_view', tags=['figures']) }}
SELECT
    CAST(created_at AS date) AS day,
    count(*) AS orders,
    sum(amount) AS revenue
FROM {{ ref('orders') }}
WHERE status <> 'cancelled'
GROUP BY CAST(created_at AS date)
