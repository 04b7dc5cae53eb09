{{ config(mode='upsert', keys='id') }}
SELECT id, customer, amount
FROM {{ stream('order_states') }}
