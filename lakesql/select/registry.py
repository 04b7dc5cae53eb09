"""The functions of Spark 4.1.3, by the numbers of arguments that they take.

Written by `tests/spark/functions.py`.
"""

from __future__ import annotations

VERSION = "4.1.3"

COUNTS = {
    "0": """
        collations cume_dist curdate current_catalog current_database current_date current_schema current_timestamp
        current_timezone current_user e input_file_block_length input_file_block_start input_file_name localtimestamp
        monotonically_increasing_id now pi row_number session_user spark_partition_id sql_keywords user version
    """,
    "0,2-": """
        map named_struct
    """,
    "0-": """
        array arrays_zip concat dense_rank grouping_id in map_concat percent_rank python_worker_logs rank struct when
    """,
    "0-1": """
        current_time ntile rand randn random uuid
    """,
    "0-2": """
        make_ym_interval mode unix_timestamp
    """,
    "0-4": """
        lag lead make_dt_interval
    """,
    "0-7": """
        make_interval
    """,
    "1": """
        abs acos acosh any array_agg array_compact array_distinct array_max array_min array_size ascii asin asinh atan
        atanh avg base64 bigint bin binary bit_and bit_count bit_length bit_or bit_xor bitmap_and_agg
        bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or
        boolean cardinality cbrt char char_length character_length chr collation collect_list collect_set cos cosh cot
        count_if crc32 csc date date_from_unix_date day dayname dayofmonth dayofweek dayofyear decimal degrees double
        every exp explode explode_outer expm1 factorial flatten float grouping hex hll_sketch_estimate initcap inline
        inline_outer int is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length json_object_keys
        kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float kurtosis last_day lcase len length ln log10 log1p log2
        lower luhn_check make_valid_utf8 map_entries map_from_entries map_keys map_values max md5 mean median min
        month monthname negative not nullifzero octet_length parse_json percentile_cont percentile_disc posexplode
        posexplode_outer positive quarter quote radians raise_error reverse rint schema_of_variant
        schema_of_variant_agg sec sha sha1 sign signum sin sinh size skewness smallint some soundex space sqrt
        st_asbinary st_geogfromwkb st_geomfromwkb st_srid std stddev stddev_pop stddev_samp string sum tan tanh
        theta_intersection_agg theta_sketch_estimate time timestamp timestamp_micros timestamp_millis
        timestamp_seconds tinyint to_variant_object try_avg try_parse_json try_sum try_url_decode try_validate_utf8
        typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode
        validate_utf8 var_pop var_samp variance variant_explode variant_explode_outer weekday weekofyear window_time
        year zeroifnull
    """,
    "1,2,3,6,7": """
        make_timestamp try_make_timestamp
    """,
    "1-": """
        coalesce concat_ws count format_string hash hour minute printf second xxhash64
    """,
    "1-2": """
        any_value approx_count_distinct approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array_sort
        assert_true bround btrim ceil ceiling first first_value floor from_unixtime hll_sketch_agg hll_union_agg
        kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float last last_value listagg log ltrim randstr round rtrim schema_of_avro schema_of_csv
        schema_of_json schema_of_xml shuffle sort_array string_agg theta_sketch_agg theta_union_agg to_avro to_binary
        to_csv to_date to_json to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_xml trim
        try_to_binary try_to_date try_to_time try_to_timestamp
    """,
    "1-3": """
        approx_top_k sentences str_to_map
    """,
    "1-4": """
        range
    """,
    "1-5": """
        mask
    """,
    "1-7": """
        try_make_interval
    """,
    "2": """
        add_months and array_append array_contains array_except array_intersect array_position array_prepend
        array_remove array_repeat array_union arrays_overlap atan2 bit_get collate contains corr covar_pop covar_samp
        date_add date_diff date_format date_part date_sub date_trunc dateadd datediff datepart div element_at encode
        endswith equal_null exists extract filter find_in_set forall format_number from_utc_timestamp get
        get_json_object getbit histogram_numeric hypot ifnull instr kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
        kll_sketch_merge_float left map_contains_key map_filter map_from_arrays max_by min_by mod nanvl next_day
        nullif nvl or pmod pow power regexp regexp_count regexp_like regexp_substr regr_avgx regr_avgy regr_count
        regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat right rlike session_window sha2 shiftleft
        shiftright shiftrightunsigned st_setsrid startswith theta_difference theta_intersection time_trunc to_char
        to_number to_utc_timestamp to_varchar transform transform_keys transform_values trunc try_add try_divide
        try_element_at try_mod try_multiply try_subtract try_to_number xpath xpath_boolean xpath_double xpath_float
        xpath_int xpath_long xpath_number xpath_short xpath_string
    """,
    "2,3,6,7": """
        make_timestamp_ltz try_make_timestamp_ltz
    """,
    "2,6": """
        make_timestamp_ntz try_make_timestamp_ntz
    """,
    "2-": """
        decode elt greatest java_method json_tuple least reflect stack try_reflect
    """,
    "2-3": """
        approx_percentile array_join convert_timezone from_avro from_csv from_json from_xml hll_union ilike
        levenshtein like locate lpad months_between nth_value parse_url percentile percentile_approx position
        regexp_extract regexp_extract_all regexp_instr replace rpad sequence split substr substring theta_union
        try_parse_url try_variant_get uniform variant_get
    """,
    "2-4": """
        from_protobuf to_protobuf window
    """,
    "2-5": """
        aes_decrypt try_aes_decrypt
    """,
    "2-6": """
        aes_encrypt
    """,
    "3": """
        array_insert between conv if make_date make_time map_zip_with nvl2 slice split_part substring_index time_diff
        translate zip_with
    """,
    "3-4": """
        aggregate overlay reduce regexp_replace
    """,
    "4": """
        count_min_sketch width_bucket
    """,
}
"""`1-2` is one or two, `2-` two or more, `0,2-` any even number."""
