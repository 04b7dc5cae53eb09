{{ config(
    mode='upsert',
    keys=['order_id'],
    sequence_by='updated_at',
    delete_when="status = 'purged'",
    trigger='30 seconds',
    partition_by=['days(created_at)'],
) }}
SELECT order_id, customer_id, amount, status, created_at, updated_at
FROM {{ stream('orders') }}
