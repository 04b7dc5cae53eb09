{{ config(mode='append', trigger='10 seconds') }}
SELECT account_id, device.kind AS device, device.os AS os, happened_at FROM {{ stream('logins') }}
