{{ config(mode='append', keys='id', on_schema_change='ignore') }}
SELECT id, CAST(size AS int) AS size FROM {{ stream('landing') }}
