-- The products that can be ordered now: a mirror of a table of the shop's database, by its change feed.
{{ config(mode='cdc', keys='product_id', sequence_by='_change.position') }}
SELECT product_id, name, price, stock, _change.position AS position
FROM {{ stream('product_changes') }}
WHERE stock > 0
