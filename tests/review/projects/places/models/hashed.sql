{{ config(mode='append') }}
SELECT id, md5(concat_ws('|', *)) AS hash FROM {{ stream('events') }}
