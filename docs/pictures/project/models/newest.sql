{{ config(mode='upsert', keys='order_id', sequence_by='updated_at') }}
SELECT order_id, status, updated_at, _change.op AS op, record
FROM {{ stream('orders') }}
