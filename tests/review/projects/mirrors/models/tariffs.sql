{{ config(mode='scd2', keys='contract_id', sequence_by=['_change.ts', '_change.position'], valid_from='since', valid_to='until') }}
SELECT contract_id, tariff, price, _change.ts AS changed_at, _change.position AS position
FROM {{ stream('contract_changes') }}
