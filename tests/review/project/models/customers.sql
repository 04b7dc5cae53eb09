{{ config(
    mode='upsert',
    keys='customer_id',
    sequence_by='changed_at',
    on_schema_change='fail',
) }}
SELECT
    customer_id,
    name,
    {{ clean('email') }} AS email,
    address.city AS city,
    address.country AS country,
    changed_at
FROM {{ stream('customers') }}
