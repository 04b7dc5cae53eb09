{{ config(mode='append') }}
SELECT account_id, '{{ target.name }}' = 'prod' AS is_real, '{{ target.namespace }}' AS place, happened_at FROM {{ stream('seen') }}
