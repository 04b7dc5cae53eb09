{{ config(mode='cdc', keys='contract_id', apply_deletes='soft') }}
SELECT contract_id, customer_id, {{ tidy('tariff') }} AS tariff FROM {{ stream('contract_changes') }}
