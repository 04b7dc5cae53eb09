{{ config(mode='append', keys='statement_id') }}
SELECT statement_id, account_id, {{ amount_columns('balance', var('currency')) }}, happened_at FROM {{ stream('statements') }}
