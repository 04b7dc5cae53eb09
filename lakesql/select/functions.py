"""Which functions and data sources of Spark 4.1 aggregate, are forbidden, may be in
FROM, or read a path."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _words(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
    collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value
    grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
    kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont percentile_disc
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg
    skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg
    theta_union_agg try_avg try_sum var_pop var_samp variance
    """
)
"""Spark 4.1's aggregate functions (`SHOW FUNCTIONS`, group `agg_funcs`)."""

_OF_TASK = "is of the file that Spark's task reads just then, or of none; a record's own file is `_record.topic`"

FORBIDDEN_FUNCTIONS = {
    "reflect": "calls any Java method",
    "java_method": "calls any Java method",
    "try_reflect": "calls any Java method",
    "from_protobuf": "reads a descriptor file of the machine that runs Spark",
    "to_protobuf": "reads a descriptor file of the machine that runs Spark",
    "read_files": "reads any file that the machine reaches",
    "python_worker_logs": "reads the logs of the machine that runs Spark",
    "monotonically_increasing_id": "numbers the rows of one batch, and those of the next one from 0 again",
    "spark_partition_id": "numbers the tasks of one batch",
    "input_file_name": _OF_TASK,
    "input_file_block_start": _OF_TASK,
    "input_file_block_length": _OF_TASK,
    "identifier": "makes a name out of text, which nobody can check before it runs",
}
"""Functions that reach outside of the query, or whose result depends on where a batch
ends; with the reason that a message gives."""

TABLE_FUNCTIONS = _words(
    """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range sql_keywords
    stack variant_explode variant_explode_outer
    """
)
"""The functions of Spark 4.1 that a FROM may call."""

PATH_FORMATS = _words(
    """
    avro binaryfile console csv delta hudi iceberg image jdbc json kafka libsvm memory noop orc parquet rate
    rate-micro-batch socket statestore state-metadata text xml
    """
)
"""Data sources that Spark reads by `format`.`path`."""


_UNSTEADY = re.compile(
    r"\b(?:curdate|current_date|current_time|current_timestamp|localtimestamp|now|rand|randn|random|randstr|shuffle|"
    r"uniform|unix_timestamp|uuid)\b",
    re.IGNORECASE,
)


def is_unsteady(*texts: str) -> bool:
    """Whether SQL may give other values when it is run again, by the time or by chance.
    A column with the name of such a function counts too."""
    return any(_UNSTEADY.search(each) for each in texts)
