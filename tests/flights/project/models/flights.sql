{{ config(mode='append', partition_by=['days(time_hour)']) }}
SELECT
    year,
    month,
    day,
    dep_time,
    sched_dep_time,
    dep_delay,
    arr_time,
    sched_arr_time,
    arr_delay,
    carrier,
    flight,
    tailnum,
    origin,
    dest,
    air_time,
    distance,
    hour,
    minute,
    time_hour
FROM {{ stream('flights') }}
