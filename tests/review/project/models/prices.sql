-- What each product has cost, and when.
{{ config(mode='scd2', keys='product_id', sequence_by=['_change.ts', '_change.position'], track_columns='price') }}
SELECT product_id, name, price, _change.ts AS changed_at, _change.position AS position
FROM {{ stream('product_changes') }}
