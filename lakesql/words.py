"""Words of dbt, SQLMesh and Spark that people type, and what lakesql has in their place: the one table of them.

No answer is a command that removes something: somebody who is told of one may run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from lakesql.errors import did_you_mean

Kind = Literal[
    "command",
    "option",
    "selector",
    "config",
    "mode",
    "template",
    "file",
    "model",
    "column",
    "stream",
    "seed",
    "target",
    "settings",
    "type",
    "test",
]
"""Where a word stands."""

_RUN = "`lakesql run` reads what has arrived and writes the tables; it continues where each table stands."
_COMPILE = "`lakesql compile` shows the SQL of each batch before anything runs."
_PREVIEW = "`lakesql show MODEL --preview` shows rows that a SELECT makes, and writes nothing."
_PARSE = "`lakesql parse` checks every file of the project."
_SELECT = "`--select` chooses models: `lakesql run --select orders`."
_TARGET = "`--target` names a target of profiles.yml."
_CONTINUOUS = "`lakesql run --continuous` runs until it is ended by Ctrl-C or SIGTERM."
_ALL_NEW = "Leave it out: a batch holds the records that have not been read, and nothing else."
_TESTS = (
    "`tests:` of a model or a column in a properties file says what must hold of its table, and so do the SELECTs in "
    "tests/: `lakesql test` runs them. `unit_tests:` are tests of SELECTs."
)
_NO_PACKAGES = "There are no packages: write the macro into macros/, or the SQL that it would make."
_HISTORY = "mode='scd2' keeps a row for each version: of a stream by keys and sequence_by, of tables by keys."
_NO_HOOKS = "There are no hooks: a batch runs the statements of its compiled file, and nothing else."
_NO_MAINTENANCE = "`lakesql run` maintains tables between two batches, `lakesql maintain MODEL` does it by itself."
_NO_QUERIES = "A template runs no query: it is read before anything runs. Join a table with ref('…') in the SELECT."
_MODE = "mode='append' inserts each row; mode='upsert' with keys=['…'] keeps the newest row of each key."
_KEYS = "keys=['…'], in mode='upsert' or 'append'."
_NAMESPACE = "Iceberg's word is `namespace`."
_CATALOG = "Tables are in the catalog of the target, `catalog` in profiles.yml."
_TRIGGER = "trigger='30 seconds' says how often a continuous run takes a batch."
_START = "`start` of the stream says where a new table begins: `earliest`, `latest` or a time."
_PER_BATCH = "`max_per_batch` of the stream bounds a batch."
_WATERMARK = "`watermark: {column: …, delay: …}` of the stream says how late events may be."
_CHECKPOINTS = "`checkpoints` of the target in profiles.yml says where all checkpoints are."
_SPARK = "`spark: {master: …, conf: {…}}` of the target in profiles.yml says how Spark is started."
_DESCRIBED = "Descriptions stand in a properties file beside the models: `models: [{name: …, description: …}]`."
_META = "meta={…} of config(…) holds anything for other tools."
_TOPIC = "`topic` names Kafka's topic, `path` plain files."
_PATHS = "Folders stand in [tool.lakesql.paths]: models, streams, macros, tests, seeds."
_STREAMS = "`streams:` declares what is read, with its columns; a model reads it by stream('…')."

WORDS: Mapping[Kind, Mapping[str, str]] = {
    "command": {
        **dict.fromkeys(("apply", "submit", "execute", "backfill"), _RUN),
        "retry": "`lakesql run --select result:error result:skipped` runs what did not succeed in the run before.",
        **dict.fromkeys(("render", "explain"), _COMPILE),
        **dict.fromkeys(("evaluate", "preview"), _PREVIEW),
        **dict.fromkeys(("validate", "check", "lint", "info"), _PARSE),
        **dict.fromkeys(("start", "serve", "watch", "daemon"), _CONTINUOUS),
        **dict.fromkeys(("audit", "unit_test"), _TESTS),
        **dict.fromkeys(("snapshot", "snapshots"), _HISTORY),
        **dict.fromkeys(("deps", "install"), _NO_PACKAGES),
        **dict.fromkeys(("compact", "optimize", "vacuum", "expire", "janitor"), _NO_MAINTENANCE),
        "diff": "`lakesql plan` says what a change does to tables and streams.",
        "docs": "`lakesql parse` writes target/manifest.json: models, columns, their docs, and who reads whom.",
        "source": "`lakesql debug` asks each connection for what is read; `lakesql freshness` checks tables.",
        **dict.fromkeys(("list", "dag", "models"), "`lakesql ls` lists models and streams."),
        **dict.fromkeys(("health", "stats", "monitor"), "`lakesql status` shows how the tables of models are."),
        "run_operation": _NO_HOOKS,
        **dict.fromkeys(("fetchdf", "select", "query"), "`lakesql show MODEL` prints rows of a table."),
        **dict.fromkeys(("new", "create"), "`lakesql init` starts a project."),
        "stop": "Ctrl-C or SIGTERM ends a run after its batch.",
        "version": "`lakesql --version`.",
        "help": "`lakesql --help`.",
    },
    "option": {
        **dict.fromkeys(("m", "models", "model", "n"), _SELECT),
        **dict.fromkeys(("environment", "env", "e", "gateway"), _TARGET),
        "profile": f"{_TARGET} The profile is `profile` of [tool.lakesql].",
        "threads": "`threads` of the target in profiles.yml says how many models run at the same time.",
        **dict.fromkeys(("master", "conf", "packages", "jars"), _SPARK),
        **dict.fromkeys(("daemon", "watch", "streaming"), _CONTINUOUS),
        **dict.fromkeys(("start", "event_time_start", "starting_offsets"), _START),
        **dict.fromkeys(("batch_size", "max_offsets_per_trigger"), _PER_BATCH),
        "sample": _PREVIEW,
        "dry_run": _COMPILE,
        **dict.fromkeys(("defer", "favor_state"), "`lakesql run` and `lakesql compile` have it, with --state DIR."),
        "state": "Commands that have --select have it: the folder of a manifest.json, and of a run_results.json.",
        "defer_state": "`--state` names the folder of the manifest.json for --defer too.",
        "indirect_selection": "Tests are chosen by their models.",
        **dict.fromkeys(("checkpoint", "checkpoint_location"), _CHECKPOINTS),
        **dict.fromkeys(
            ("json", "log_level", "quiet", "verbose", "v", "q"), "`--log-format json` writes each event as a line."
        ),
        "project": "`--project-dir` names the project's folder.",
        "profiles": "`--profiles-dir` names the folder of profiles.yml.",
    },
    "selector": {
        "source": "Did you mean 'stream'? It is `stream:orders`.",
        "model": "A model's name stands by itself: `orders`.",
        "package": "There are no packages: `path:models/reports` selects a folder.",
        "source_status": "`lakesql freshness` checks tables; `result:error` selects what has failed.",
        "group": "`tag:…` selects models by their tags.",
    },
    "config": {
        **dict.fromkeys(
            ("materialized", "incremental_strategy", "strategy", "kind", "output_mode", "outputmode"), _MODE
        ),
        **dict.fromkeys(("unique_key", "primary_key", "key", "grain", "grains", "merge_keys"), _KEYS),
        **dict.fromkeys(
            ("schema", "dataset"), f"{_NAMESPACE} namespace='…' gives the table another than the target's."
        ),
        **dict.fromkeys(("database", "catalog", "location", "location_root"), _CATALOG),
        **dict.fromkeys(
            ("alias", "identifier", "name", "table_name"), "table='…' gives the table another name than the model's."
        ),
        **dict.fromkeys(
            ("cluster_by", "clustered_by", "sort", "sort_by", "zorder"), "order_by=['…'] orders rows within files."
        ),
        **dict.fromkeys(
            ("partitioned_by", "partition", "partitions"), "partition_by=['days(…)'] takes Iceberg's transforms."
        ),
        **dict.fromkeys(
            ("tblproperties", "table_properties", "physical_properties"), "properties={…} are the table's."
        ),
        **dict.fromkeys(
            ("file_format", "format", "table_format"),
            "Tables are Iceberg's: properties={'write.format.default': 'orc'}.",
        ),
        **dict.fromkeys(("pre_hook", "post_hook", "pre_statements", "post_statements", "sql_header"), _NO_HOOKS),
        **dict.fromkeys(
            ("updated_at", "order", "version_column", "row_version"), "sequence_by='…' says which row is newer."
        ),
        **dict.fromkeys(
            ("check_cols", "track_history_column_list"),
            "track_columns=['…'] names what makes a version, in mode='scd2'.",
        ),
        **dict.fromkeys(("event_time", "time_column", "watermark", "lookback"), _WATERMARK),
        **dict.fromkeys(
            ("cron", "interval", "interval_unit", "schedule", "processing_time", "processingtime"), _TRIGGER
        ),
        **dict.fromkeys(("start", "begin", "starting_offsets", "startingoffsets"), _START),
        **dict.fromkeys(("batch_size", "maxoffsetspertrigger", "max_offsets_per_trigger", "max_per_batch"), _PER_BATCH),
        **dict.fromkeys(("checkpoint", "checkpoint_location", "checkpointlocation"), _CHECKPOINTS),
        **dict.fromkeys(("description", "columns", "docs", "persist_docs"), _DESCRIBED),
        **dict.fromkeys(("owner", "group", "access", "contract", "dialect"), _META),
        **dict.fromkeys(("tests", "data_tests", "audits"), _TESTS),
        **dict.fromkeys(("delete_condition", "invalidate_hard_deletes"), "delete_when='…' deletes a row's key."),
        "enabled": "A model that is not to run is left out by `--exclude`, or its file is moved out of models/.",
        "full_refresh": "It is decided on the command line, not in a model.",
        "merge_update_columns": "update_columns=['…'] says which columns a stored row gets, in mode='upsert'.",
        "merge_exclude_columns": "exclude_columns=['…'] says which columns a stored row keeps, in mode='upsert'.",
        "matched_condition": "when_matched='source.a <> target.a' says when a stored row is updated, in mode='upsert'.",
        "skip_matched_step": "update_columns=[] updates no stored row, in mode='upsert'.",
    },
    "mode": dict.fromkeys(
        (
            "incremental",
            "view",
            "merge",
            "update",
            "complete",
            "insert_overwrite",
            "delete+insert",
        ),
        _MODE,
    ),
    "template": {
        "source": "stream('…') reads a stream that a .yml file in streams/ declares.",
        "is_incremental": _ALL_NEW,
        "env_var": "env_var is known in profiles.yml alone; a model reads var('…').",
        **dict.fromkeys(("run_query", "execute", "statement", "load_result", "adapter", "api", "graph"), _NO_QUERIES),
        **dict.fromkeys(("dbt_utils", "dbt_date", "dbt_expectations", "dbt", "codegen", "audit_helper"), _NO_PACKAGES),
        **dict.fromkeys(("log", "print", "do", "exceptions"), "A template writes SQL and nothing else: leave it out."),
        **dict.fromkeys(
            ("modules", "builtins", "fromjson", "tojson", "local_md5"),
            "A template has Jinja's own filters and tests, listed in docs/models.md.",
        ),
        **dict.fromkeys(
            ("invocation_id", "run_started_at", "flags", "selected_resources"),
            "A SELECT is the same in every run: write current_timestamp() where a batch's time is meant.",
        ),
        **dict.fromkeys(
            ("model", "node", "schema", "database"),
            "`this` is the model's table; target.namespace and target.catalog are its place.",
        ),
        "doc": _DESCRIBED,
        **dict.fromkeys(("snapshot", "endsnapshot"), _HISTORY),
        **dict.fromkeys(("test", "endtest"), _TESTS),
        **dict.fromkeys(("materialization", "endmaterialization"), _MODE),
        **dict.fromkeys(
            ("start_ds", "end_ds", "start_dt", "end_dt"),
            "Leave it out: a batch holds the records that have not been read, and nothing else.",
        ),
        "target.schema": "Write target.namespace.",
        "target.dataset": "Write target.namespace.",
        "target.database": "Write target.catalog.",
        "config.get": "config(…) is read from the file; a value that the SELECT needs is a var('…').",
        **dict.fromkeys(
            ("this.schema", "this.database", "this.identifier", "this.name", "this.table"),
            "`this` is the whole name of the table; target.namespace and target.catalog are its parts.",
        ),
    },
    "file": {
        "version": "There is no version: leave the line out.",
        "sources": _STREAMS,
        "tables": _STREAMS,
        "snapshots": _HISTORY,
        **dict.fromkeys(("tests", "data_tests"), _TESTS),
        **dict.fromkeys(("macros", "analyses"), "Macros are described by comments in their files."),
        **dict.fromkeys(("exposures", "metrics", "semantic_models", "groups", "saved_queries"), _META),
    },
    "model": {
        "config": "config(…) stands in the model's SQL, defaults for folders in [tool.lakesql.models].",
        "unit_tests": _TESTS,
        **dict.fromkeys(
            ("meta", "docs", "access", "group", "contract", "constraints", "versions", "latest_version"), _META
        ),
        "tags": "tags=['…'] stands in config(…) of the model.",
    },
    "column": {
        "data_type": "A column's type comes of the SELECT: cast it there.",
        "type": "A column's type comes of the SELECT: cast it there.",
        **dict.fromkeys(("meta", "tags", "quote", "constraints"), "A column has a name, a description and tests."),
    },
    "stream": {
        "tables": "Each stream is an entry of its own under `streams:`.",
        **dict.fromkeys(("identifier", "table", "subscribe", "source"), _TOPIC),
        "subscribepattern": "`pattern` is a regular expression of topics' names.",
        **dict.fromkeys(("location", "load", "glob", "file", "files"), _TOPIC),
        **dict.fromkeys(("startingoffsets", "starting_offsets", "startingtimestamp", "auto_offset_reset"), _START),
        **dict.fromkeys(("maxoffsetspertrigger", "maxfilespertrigger", "batch_size", "max_records"), _PER_BATCH),
        **dict.fromkeys(("loaded_at_field", "freshness", "event_time", "time_column"), _WATERMARK),
        **dict.fromkeys(("fields", "contract"), "`columns: {order_id: bigint}` is the contract."),
        **dict.fromkeys(("primary_key", "unique_key", "keys"), "`key: [order_id]` says what a record is about."),
        **dict.fromkeys(
            ("value_format", "type", "serialization"), "`format` says how a value is written: json, csv, avro, …."
        ),
        **dict.fromkeys(("tests", "data_tests"), _TESTS),
        **dict.fromkeys(("database", "loader"), "`connection` names an entry of the target's `connections`."),
        "registry": "`schema` names an .avsc file in the project.",
    },
    "seed": {
        "config": "Its keys stand beside `name`: `delimiter`, `tags`, and `columns` with their types.",
        **dict.fromkeys(("column_types", "types"), "`columns: {code: string, area: bigint}` says the types."),
        **dict.fromkeys(("quote_columns", "quote"), "Columns keep the names of the header; SQL quotes them by `…`."),
        **dict.fromkeys(
            ("header", "null_value", "encoding", "format"), "A seed is UTF-8, with a header; empty is NULL."
        ),
        **dict.fromkeys(
            ("schema", "dataset", "namespace", "database", "alias"),
            "The table of a seed is in the target's namespace, by the seed's name.",
        ),
        **dict.fromkeys(("meta", "docs", "access", "group"), _META),
    },
    "target": {
        **dict.fromkeys(("schema", "dataset"), f"{_NAMESPACE} It is a key of the target."),
        **dict.fromkeys(
            ("type", "method"), "A target is Spark with a `catalog` and `connections`; each of these has a `type`."
        ),
        **dict.fromkeys(
            ("database", "warehouse", "uri", "metastore"),
            "`catalog: {type: …, uri: …, warehouse: …}` says where tables are.",
        ),
        **dict.fromkeys(
            ("host", "port", "user", "password", "token", "endpoint", "cluster", "account"),
            "Addresses and logins stand in `catalog` and `connections`.",
        ),
        **dict.fromkeys(
            ("connect_retries", "connect_timeout", "retry"),
            "`retries: {attempts: …, max_wait: …}` says how transient errors are retried.",
        ),
        **dict.fromkeys(
            ("checkpoint", "checkpoint_location", "checkpointlocation", "state"), "`checkpoints` names the folder."
        ),
        **dict.fromkeys(("master", "conf", "server_side_parameters", "spark_config"), _SPARK),
        **dict.fromkeys(
            ("sources", "brokers", "kafka", "connection"), "`connections` has an entry for each broker or folder."
        ),
    },
    "settings": {
        "dbt_project.yml": "What dbt has in dbt_project.yml stands in [tool.lakesql] of pyproject.toml.",
        **dict.fromkeys(
            ("version", "config_version", "require_dbt_version"), "There is no version: leave the line out."
        ),
        **dict.fromkeys(("model_paths", "source_paths", "macro_paths", "stream_paths"), _PATHS),
        **dict.fromkeys(("seed_paths", "test_paths", "analysis_paths", "snapshot_paths", "asset_paths"), _PATHS),
        "target_path": "`--target-path`, or LAKESQL_TARGET_PATH, names the folder.",
        "log_path": "`--log-path`, or LAKESQL_LOG_PATH, names the folder.",
        **dict.fromkeys(("on_run_start", "on_run_end"), _NO_HOOKS),
        **dict.fromkeys(
            ("snapshots", "tests", "sources", "clean_targets", "dispatch", "quoting", "flags"),
            "[tool.lakesql] has name, profile, paths, vars, models and seeds.",
        ),
    },
    "type": {
        **dict.fromkeys(("text", "str", "uuid", "guid", "json", "jsonb", "nvarchar", "clob", "enum"), "Write string."),
        **dict.fromkeys(("datetime", "timestamptz", "timestampz", "datetimeoffset", "instant"), "Write timestamp."),
        **dict.fromkeys(("datetime2", "timestamp_without_time_zone"), "Write timestamp_ntz."),
        **dict.fromkeys(("bool", "bit"), "Write boolean."),
        **dict.fromkeys(("number", "money", "bignumeric"), "Write decimal(12,2), or bigint."),
        **dict.fromkeys(("int8", "int64", "uint32", "bigserial", "serial"), "Write bigint."),
        **dict.fromkeys(("int4", "int32", "mediumint"), "Write int."),
        **dict.fromkeys(("int2", "int16"), "Write smallint."),
        **dict.fromkeys(("float8", "float64", "double_precision"), "Write double."),
        **dict.fromkeys(("float4", "float32"), "Write float."),
        **dict.fromkeys(("bytes", "bytea", "blob", "varbinary"), "Write binary."),
        **dict.fromkeys(("list", "repeated"), "Write array<…>."),
        **dict.fromkeys(("object", "record", "row", "dict"), "Write struct<name: type, …>, or map<string, …>."),
    },
    "test": {
        **dict.fromkeys(
            ("expression_is_true", "dbt_utils.expression_is_true", "check"),
            "Write `expression: …` with the whole condition, such as `expression: amount >= 0`.",
        ),
        **dict.fromkeys(
            ("accepted_range", "dbt_utils.accepted_range", "at_least_one", "not_empty_string"),
            "Write it as a condition: `expression: amount BETWEEN 0 AND 100`.",
        ),
        **dict.fromkeys(("recency", "dbt_utils.recency"), "Write `freshness: {column: updated_at, within: 1 hour}`."),
        **dict.fromkeys(
            ("unique_combination_of_columns", "dbt_utils.unique_combination_of_columns"),
            "Write a SELECT in tests/ that groups by the columns and has count(*) > 1.",
        ),
        **dict.fromkeys(
            ("equal_rowcount", "fewer_rows_than", "dbt_utils.equal_rowcount"),
            "`row_count: {min: …, max: …}` bounds the rows of a table; write a SELECT in tests/ to compare two tables.",
        ),
        **dict.fromkeys(("foreign_key", "relationship"), "Write `relationships: {to: ref('…'), field: …}`."),
        **dict.fromkeys(("non_null", "required"), "Write `not_null`."),
    },
}


def suggest(kind: Kind, name: str, known: Iterable[str]) -> str:
    """What lakesql has in place of a word of another tool; for any other word the nearest of those that are known."""
    return answer(kind, name) or did_you_mean(name, known)


def answer(kind: Kind, name: str) -> str:
    """What lakesql has in place of a word of another tool, '' for any other word."""
    return WORDS[kind].get(name.lower().lstrip("-").replace("-", "_").replace(" ", "_"), "")
