-- Each state of an order, with the customer as the table customers has them at that moment.
{{ config(
    mode='append',
    partition_by=['days(updated_at)'],
    max_dead_letter_ratio=0.05,
) }}
SELECT
    o.order_id,
    o.status,
    o.amount,
    o.amount >= {{ var('big_order') }} AS is_big,
    o.updated_at,
    c.name AS customer,
    c.country,
    o._record.partition AS source_partition,
    o._record.offset AS source_offset
FROM {{ stream('orders') }} AS o
LEFT JOIN {{ ref('customers') }} AS c ON c.customer_id = o.customer_id -- noqa: LK005 that moment is meant
