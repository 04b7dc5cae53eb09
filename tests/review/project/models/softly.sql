{{ config(mode='cdc', keys='product_id', apply_deletes='soft') }}
SELECT product_id, name, CAST(price AS double) AS price FROM {{ stream('product_changes') }}
