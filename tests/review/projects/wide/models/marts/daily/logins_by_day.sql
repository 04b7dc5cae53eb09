{{ config(mode='append', partition_by=['days(happened_at)', 'bucket(4, account_id)']) }}
SELECT account_id, os, happened_at FROM {{ stream('seen') }}
