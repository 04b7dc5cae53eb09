-- Ten of the keys have flights on two days of UTC, and so rows that move from one partition to another.
{{ config(
    mode='upsert',
    keys=['carrier', 'flight', 'year', 'month', 'day'],
    sequence_by=['time_hour', 'sched_dep_time'],
    partition_by=['days(time_hour)'],
) }}
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
