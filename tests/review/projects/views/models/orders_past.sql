{{ config(mode='scd2', keys='id', track_columns=['customer', 'amount']) }}
SELECT id, customer, amount
FROM {{ ref('orders') }}
