{{ config(
    mode='append',
    trigger='10 seconds',
    partition_by=['days(viewed_at)'],
    order_by=['viewed_at'],
    properties={'write.target-file-size-bytes': '67108864'},
    tags=['web'],
) }}
SELECT view_id, visitor, customer_id, {{ page_of('url') }} AS page, referrer, viewed_at
FROM {{ stream('page_views') }}
