{{ config(mode='append') }}
SELECT payment_id, amount_cents, happened_at, date_add(to_date(happened_at), {{ var('late_days') }}) AS closes
FROM {{ stream('paid') }}
