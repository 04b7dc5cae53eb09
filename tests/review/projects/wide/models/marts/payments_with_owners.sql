{{ config(mode='append') }}
SELECT p.*, o.owner FROM {{ stream('paid') }} AS p LEFT JOIN {{ ref('owners') }} AS o USING (account_id)
