{{ config(mode='append', on_schema_change='sync_all_columns', partition_by='days(created_at)') }}
SELECT o.order_id, o.created_at, c.* FROM {{ stream('orders') }} AS o JOIN {{ ref('customers') }} AS c USING (customer_id)
