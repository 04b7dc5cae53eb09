{{ config(mode='append') }}
SELECT order_id, status, updated_at, _change.op AS op, record
FROM {{ stream('orders') }}
