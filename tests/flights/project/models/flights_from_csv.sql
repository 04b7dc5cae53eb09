{{ config(mode='append', partition_by=['months(time_hour)']) }}
SELECT *
FROM {{ stream('flights_csv') }}
