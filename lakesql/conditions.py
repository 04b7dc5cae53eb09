"""All conditions by name, each with its meaning and the advice: the source of
`docs/errors.md`.

Apart from `errors.py`, as it is a table that grows; sorted by name.
"""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """The meaning of a condition, and what the person who meets it should do."""

    meaning: str
    do: str


CONDITIONS: dict[str, Condition] = {
    "ambiguous-column": Condition(
        "A name in the SELECT may be a column of several tables that it reads, or of several aliases before it.",
        "Say which: put the alias of its table before it, or give one of them another name.",
    ),
    "analysis-failed": Condition(
        "Spark's analyzer refuses the model's SELECT: a column that does not exist, types that do not go together.",
        "Correct the SELECT where the message points.",
    ),
    "archive-read": Condition(
        "The `archive` of a stream lies in the folder that the stream reads.",
        "Name a folder beside that one: `path: landing/*.json`, `archive: done`. Where the path names no folder, let "
        "the connection's `path` be the folder above.",
    ),
    "avro-schema": Condition(
        "The Avro schema of a stream does not exist, is not one, or lacks a column of the contract; of a stream with a "
        "`registry`, none of the schemas has it, or it is of a type that holds itself.",
        "Correct the path in `schema:`, the file, or the contract.",
    ),
    "bad-call": Condition(
        "A maintenance model holds something else than CALL statements of Iceberg's maintenance procedures, with named "
        "arguments, for the table of its model.",
        "Correct the statement where the message points: "
        "`CALL {{ target.catalog }}.system.rewrite_data_files(table => '{{ this }}')`.",
    ),
    "bad-column-name": Condition(
        "A column has a name with a dot, a backtick or a control character in it, or an empty one.",
        "Give it another name, in a SELECT with `AS`, and in a contract with `from`, which is what records call it: "
        "`a_b: {type: string, from: 'a.b'}`.",
    ),
    "bad-expression": Condition(
        "An SQL expression in the configuration, or an expectation, is not one scalar expression over the model's "
        "columns; or one that is expected is neither true nor false, or decides the same for every row.",
        "Correct it as the message says. Queries, aggregates and window functions have no place in it.",
    ),
    "bad-fixture": Condition(
        "A row or a record of a unit test does not fit the contract of its stream or the columns of its table, or a "
        "fixture file cannot be read as rows.",
        "Correct the value at the place. A record that is meant to be bad is a text: its raw value in quotes.",
    ),
    "bad-interval": Condition(
        "A text is not an interval of fixed length.",
        "Write a number and a unit, or several: `30 seconds`, `10 minutes`, `1 hour 30 minutes`.",
    ),
    "bad-name": Condition(
        "A project, model, stream, namespace or connection has a name that is not a plain word.",
        "Use ASCII letters, digits and `_`, no digit first.",
    ),
    "bad-order": Condition(
        "An entry of `order_by` is not a column with a direction, or a `sort_order` of a rewrite is no list of terms.",
        "Write a column, then `desc` and `nulls first` or `nulls last` as needed; a zorder stands by itself.",
    ),
    "bad-output-dir": Condition(
        "`lakesql compile --output-dir` would overwrite a file that lakesql did not write, or write among the models; "
        "or `lakesql docs --output` names a folder that holds something else than a site.",
        "Name a folder for compiled files alone, such as `compiled`, or for the site alone.",
    ),
    "bad-partition": Condition(
        "An entry of `partition_by` is not one of Iceberg's transforms.",
        "Write a column, `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(n, c)` or `truncate(n, c)`.",
    ),
    "bad-profile-template": Condition(
        "A text of profiles.yml uses Jinja that is not known there.",
        "Use `env_var('NAME')` or `env_var('NAME', 'default')`, nothing else.",
    ),
    "bad-selector": Condition(
        "A word of `--select` or `--exclude` is not one of the selector grammar, so it could not select anything.",
        "Correct it as the message says. Methods: `config.…:`, `file:`, `fqn:`, `path:`, `resource_type:`, `result:`, "
        "`selector:`, `state:`, `stream:`, `tag:`, `test_name:`, `test_type:`. Operators: `+`, `@`, a comma, a blank.",
    ),
    "bad-start": Condition(
        "`start` of a stream is neither a word that lakesql knows nor a time, or a time that is still to come when a "
        "topic is to be read from it on.",
        "Write `earliest`, `latest`, or an ISO time that has passed, such as `2026-01-31T00:00:00Z`.",
    ),
    "bad-tool-call": Condition(
        "An assistant has called a tool of `lakesql mcp` that does not exist, or with arguments that it does not take.",
        "Ask the server for its tools: each says what it takes.",
    ),
    "bad-topic": Condition(
        "A stream's topic has a name that Kafka does not allow.",
        "Correct the name; several topics are `topics: [a, b]` or `pattern: '…'`.",
    ),
    "bad-size": Condition(
        "A size is not one that lakesql reads.",
        "Write a number and a unit, as in '256 MB' or '1.5 GB': B, KB, MB, GB or TB, of 1024 each.",
    ),
    "bad-source": Condition(
        "A file of the project's `sources/` cannot be loaded, has no class of a source or several, or its code fails.",
        "Correct the file: docs/own-sources.md builds one.",
    ),
    "bad-trigger": Condition(
        "`trigger` is neither `available_now` nor an interval.",
        "Write `available_now`, or an interval such as `30 seconds`.",
    ),
    "bad-vars": Condition(
        "The value of `--vars` is not a mapping in YAML or JSON, or has a variable that nothing in the project reads.",
        "Write YAML or JSON, a blank behind each colon, with names that a `var('…')` has: `--vars '{big_order: 100}'`.",
    ),
    "batch-failed": Condition(
        "A batch failed for a reason that lies outside the model: Spark, storage, the catalog.",
        "Read the message and `logs/`, then run again: the batch is repeated.",
    ),
    "batch-published": Condition(
        "The batch that a run was about to publish is in the table already: another runner writes the same model.",
        "Run a model in one place at a time: let the other runner continue, or stop it and start again.",
    ),
    "blunt-deletion": Condition(
        "A warning: by an option of `remove_orphan_files` two storages are taken for one, or a file whose name "
        "has another scheme or host is deleted.",
        "Make sure by `dry_run` which files would go, or leave the option out.",
    ),
    "catalog-not-found": Condition(
        "The catalog's server answers, but does not know the warehouse or the database that the target names.",
        "Create it, or correct `uri` and `warehouse` of the target's `catalog`; `lakesql debug` checks it.",
    ),
    "catalog-options": Condition(
        "Spark cannot open the target's catalog with the keys that its block has, or would understand one of them "
        "otherwise than pyiceberg.",
        "Correct the key, or its value, in the target's `catalog` in profiles.yml.",
    ),
    "catalog-not-atomic": Condition(
        "A REST catalog does not take the commits of several tables as one, as `consistent=True` needs.",
        "Leave `consistent` out, or keep the tables in a catalog that has `transactions/commit`, or in a `sql` one.",
    ),
    "catalog-refused": Condition(
        "The catalog's server refuses the login, or what the login may do.",
        "Correct `credential`, `token` or user and password in the target's `catalog`, or have the rights granted; "
        "`lakesql debug` checks it.",
    ),
    "catalog-unreachable": Condition(
        "The catalog of the target did not answer, or answered with an error of its own.",
        "Start the catalog, or correct the target's `catalog` in profiles.yml; `lakesql debug` checks it.",
    ),
    "catalog-uri": Condition(
        "A catalog of type `sql` is neither on SQLite nor on PostgreSQL.",
        "Write `sqlite:///path/to/catalog.db` or `postgresql://user@host:5432/database`, or use another type.",
    ),
    "cdc-keys": Condition(
        "The `keys` of a model that mirrors a change feed are not the key of that: they lack a column of it, or have "
        "one more, such as an expression, a constant or a field of `_record`.",
        "Select the columns of the stream's `key` as they are, renamed at most, and name them in `keys`.",
    ),
    "cdc-stateful": Condition(
        "A model in mode `cdc` or `scd2` aggregates, takes DISTINCT rows or joins streams.",
        "Leave that out: the table keeps the rows. Aggregate or join the tables in another model, in mode "
        "`materialized_view`, by `ref('…')`.",
    ),
    "cdc-stream": Condition(
        "A model in mode `cdc` does not read exactly one stream, or its stream is no change feed.",
        "Read one stream with `envelope: debezium`, `debezium_flat` or `dms`.",
    ),
    "certificate-untrusted": Condition(
        "The certificate of a broker or a schema registry is not trusted, or it does not trust the client's.",
        "Give the connection's options `ssl.truststore.location` (or `ssl.truststore.certificates`) for the broker's "
        "authority, and `ssl.keystore.*` if the broker asks for a client certificate. A registry has `ca`, "
        "`certificate` and `certificate_key`.",
    ),
    "checkpoint-behind": Condition(
        "A table holds batches that its checkpoint does not know: an older copy was restored, or files were deleted.",
        "`lakesql rewind MODEL` makes a checkpoint that continues where the table stands.",
    ),
    "checkpoint-foreign": Condition(
        "The checkpoint is not the one that wrote the table's newest batch: it was copied, or restored from elsewhere.",
        "`lakesql rewind MODEL` makes a checkpoint that continues where the table stands.",
    ),
    "checkpoint-inconsistent": Condition(
        "Files of a checkpoint are missing or unreadable, or contradict each other or the table.",
        "`lakesql rewind MODEL` makes a checkpoint that continues where the table stands.",
    ),
    "checkpoint-lost": Condition(
        "A checkpoint is gone, and the ledger cannot replace it: which plain files were read, or a model's state.",
        "Restore it from a copy, or choose what to read again with `lakesql rewind`, as the message says.",
    ),
    "checkpoints-unwritable": Condition(
        "The target's folder or bucket of checkpoints cannot be written.",
        "Correct `checkpoints` in profiles.yml, the permissions, or for S3 the catalog's `s3.` keys.",
    ),
    "client-option": Condition(
        "An option of a connection's client stands in a stream or a model.",
        "Options of a connection's client (SASL, SSL, …) stand in profiles.yml, under the connection: move it there.",
    ),
    "clock-not-stopped": Condition(
        "A unit test sets `now`, and on Spark its model asks for the time by a word that a test cannot stop: one "
        "without brackets, or `unix_timestamp()`.",
        "Write `current_timestamp()` or `current_date()`, with the brackets.",
    ),
    "column-list": Condition(
        "A table alias or common table expression renames a stream's columns by a list: `FROM orders AS o (a, b)`.",
        "Rename the columns in the SELECT, with `AS`.",
    ),
    "column-required": Condition(
        "A model lacks a column that its table cannot do without: it is NOT NULL there, or the table is partitioned by "
        "it.",
        "Keep the column in the SELECT, or alter the table before the next run.",
    ),
    "columns-guessed": Condition(
        "A stream declares no columns, and the events of its recording carry no schema: the columns are what the "
        "values look like. A NULL looks like a text, and every number like a bigint or a double.",
        "Declare the stream's `columns`, before the model runs on anything but a recording.",
    ),
    "columns-unknown": Condition(
        "An option treats columns one by one, and a star in the SELECT stands for the columns of a table, which only "
        "Spark knows.",
        "Name the columns in the SELECT instead of the star.",
    ),
    "commit-conflict": Condition(
        "Another writer changed the table while a batch was written, or changed a table that the model reads. Or "
        "another runner has planned a batch in the same checkpoint. The batch is tried again.",
        "If it happens again and again: let the other writers commit less often, at other times, or to another table.",
    ),
    "commit-unknown": Condition(
        "A catalog did not say whether a commit was made. The batch is looked up in the ledger, then tried again.",
        "If it happens again and again: look at the catalog's log, and at `logs/`.",
    ),
    "config-misplaced": Condition(
        "`config(...)` stands inside a block, a macro or an expression.",
        "Write it once, on its own, at the top of the model: `{{ config(...) }}`.",
    ),
    "config-not-literal": Condition(
        "`config(...)` holds something other than literals: it is read from the file before anything is rendered.",
        "Write the value itself; values that differ by folder stand in `pyproject.toml`.",
    ),
    "connection-unreachable": Condition(
        "What a connection points to cannot be reached: a folder that does not exist, a broker that does not answer.",
        "Correct the connection in profiles.yml, or start what it points to.",
    ),
    "contract-behind": Condition(
        "Records of a stream whose contract is a file in streams/schemas name a newer schema with other fields. One "
        "that is added or widened is followed by itself: the batch is written again. Or no column holds what a field "
        "is in the file and in the newer schema.",
        "Declare the `columns` of the stream, or `lakesql schema pull` and decide in the SELECT what the column is. "
        "Nothing of the batch was written.",
    ),
    "contradictory-expectations": Condition(
        "Two expectations of a model have one name, or say the same and do something else with the rows that fail, or "
        "leave a column no value.",
        "Leave one of them out, or give it another name.",
    ),
    "contradictory-options": Condition(
        "Two options of a model exclude each other, or one takes away what another needs.",
        "Leave one of them out, or change it as the message says.",
    ),
    "cycle": Condition(
        "Models read one another in a circle, so none of them could run first.",
        "Break the circle: let one of them read a stream, or a model that does not lead back to it.",
    ),
    "data-lost": Condition(
        "Records that a model has not read are gone from their topic.",
        "Restore them, or continue without them: `lakesql run --select MODEL --accept-data-loss`.",
    ),
    "defer-catalog": Condition(
        "The table that `--defer` would read is in a catalog that this target does not have.",
        "Use a target with that catalog, or run the model that is joined here too: add it to `--select`.",
    ),
    "defer-missing": Condition(
        "Neither this target nor the one of `--state` has the table of a model that is joined.",
        "Run that model: add it to `--select`. Or name the state of a target that has run it.",
    ),
    "defer-stream": Condition(
        "A selected model streams the table of a model that has none in this target. `--defer` is for `ref` alone: a "
        "position belongs to one table.",
        "Run that model here too: add it to `--select`. Or read its table with `ref`.",
    ),
    "distinct-aggregate": Condition(
        "An aggregate of a stream counts or sums distinct values, which Spark cannot keep.",
        "Write `approx_count_distinct(x)`; or `size(collect_set(x))`, whose state grows with the values.",
    ),
    "duplicate-column": Condition(
        "A model or a stream has two columns of one name. Capitals make no difference.",
        "Give one of them another name, in a SELECT with `AS`; of a stream, keep one.",
    ),
    "duplicate-config": Condition(
        "A model has two `config(...)` calls, or gives one option twice.",
        "Keep one of the two.",
    ),
    "duplicate-key": Condition(
        "A column stands twice in `keys` or in `sequence_by`.",
        "Name each column once.",
    ),
    "duplicate-macro": Condition(
        "Two macros have one name.",
        "Rename one of the two.",
    ),
    "duplicate-name": Condition(
        "Two streams, two models, two seeds, a model and a seed, or two descriptions have one name.",
        "Rename one of them.",
    ),
    "duplicate-procedure": Condition(
        "Two maintenance models call the same procedure for one table.",
        "Put the statements into one of them, or remove one.",
    ),
    "duplicate-table": Condition(
        "Two models would write one table, or one writes the other's dead-letter table.",
        "Give one of them another `table` or `namespace`.",
    ),
    "env-var-missing": Condition(
        "profiles.yml reads an environment variable that is not set.",
        "Set it, or give `env_var` a default.",
    ),
    "envelope-missing": Condition(
        "A SELECT uses `_change`, which only the streams of a change feed have.",
        "Say `envelope: debezium`, `debezium_flat` or `dms` in the stream, or leave `_change` out.",
    ),
    "extra-missing": Condition(
        "A kind of catalog needs a Python library that is not installed.",
        "Install lakesql with the extra that the message names.",
    ),
    "executor-lost": Condition(
        "An executor ended in the middle of a batch and took rows with it that nobody else had, or Spark gave up on a "
        "task whose executors ended one after the other. The batch is tried again.",
        "If it happens again and again: look at the cluster's logs. Executors are often killed for lack of memory.",
    ),
    "executor-python": Condition(
        "Values in Protobuf are read in Python on the executors, which have none, one of another version than the "
        "driver's, or one that lacks ptars, protobuf or pyarrow.",
        "Install Python of the driver's version there, with `pip install ptars protobuf pyarrow`, and name it by the "
        "variable `PYSPARK_PYTHON` where `lakesql` is started ([clusters.md](clusters.md#python-on-the-executors)).",
    ),
    "expectation-failed": Condition(
        "Rows of a batch fail an expectation that says `on_fail: stop`; or, as the reason of a dead letter, one that "
        "says `on_fail: dead_letter`, which `detail` names.",
        "Correct the model, the expectation or the source, and run again: the batch is repeated. Of dead letters, "
        "`lakesql replay` reads those again that hold by then.",
    ),
    "expectation-untraceable": Condition(
        "An expectation says `on_fail: dead_letter`, and a row of the model is not one record that could be set aside "
        "and read again.",
        "Say `on_fail: stop` or `on_fail: warn`.",
    ),
    "expression-failed": Condition(
        "An expression of the SELECT failed on a value: a cast, an overflow, a division by zero.",
        "Correct the expression; to get NULL instead, use `try_cast`, `try_divide` and the like.",
    ),
    "failures-not-stored": Condition(
        "The failing rows of a data test with `store_failures` cannot be written into their table.",
        "See that the catalog takes new tables, and that each column of the SELECT has a type and a name of its own.",
    ),
    "feed-changed": Condition(
        "The schema beside the events of a stream that declares no columns has another column, or another type, than "
        "before. A column that is added or widened is followed by itself: the batch is written again. Or changes "
        "lack a column that the stream declares, and the model says on_schema_change='fail'.",
        "Where no column holds both types, or the model says on_schema_change='fail': decide what the column shall be, "
        "in the stream's `columns` or by on_schema_change, and run again. Nothing of the batch was written.",
    ),
    "file-name": Condition(
        "A file or folder has a name that Hadoop does not list, such as one with a colon: nothing of its folder "
        "can be read then.",
        "Rename it, or move it out of the folder, and run again. Nothing of the batch was written.",
    ),
    "file-too-large": Condition(
        "A file of the project is larger than any model, macro or properties file could sensibly be, or that of a seed "
        "larger than `max_size` in [tool.lakesql.seeds].",
        "Write less into it, or move it out of the project's folders; large data belongs in a table.",
    ),
    "file-unreadable": Condition(
        "A file of a stream cannot be read: it is cut short, is not of the stream's format, has other types than the "
        "contract, or may not be read.",
        "Mend, replace or remove the file, and run again. Nothing of the batch was written. With `ignore_corrupt: "
        "dead_letter` the stream sets such files aside.",
    ),
    "filtered-groups": Condition(
        "In mode `upsert` a SELECT filters the groups of an aggregate by what may change: HAVING, or a WHERE over it. "
        "The row of a group that stops passing the filter would stay.",
        "Leave the filter out, select what it compares, and let `delete_when` remove rows: `delete_when='n >= 3'`.",
    ),
    "files-moved": Condition(
        "The files that a model has read last are not where its streams read now, and files of their names are: a "
        "folder was renamed or copied, or a stream has another `path`.",
        "Say whether they are the same: `lakesql rewind MODEL --files same`, or `--files new`.",
    ),
    "files-shared": Condition(
        "A stream moves or deletes its files once they are read (`after`), and another model reads them too: it would "
        "miss those that are gone before it has read them.",
        "Let one model read them, in mode `append`, and the others stream its table; or write `after: leave`.",
    ),
    "files-taken": Condition(
        "A table was made of files that its stream has moved to an archive or deleted since (`after`): to read the "
        "stream again would leave out their rows, without a word.",
        "Move them back from the archive to where they were, if all of them are there, and do it again: `mv` keeps "
        "their times. `lakesql rebuild … --accept-data-loss` makes the table of the files that are there.",
    ),
    "forbidden-function": Condition(
        "A function reaches out of the query: it calls Java, reads files of the machine, or makes names out of text. "
        "Or its answer depends on where a batch ends, or on which task reads a record.",
        "Leave it out. What a model reads comes in by `stream('…')` and `ref('…')`, and a record's place by `_record`: "
        "`_record.topic` is its topic, or its file.",
    ),
    "format-needs-files": Condition(
        "A stream of format `parquet` or `orc` is read from topics, or one of these or `avro` through a connection "
        "that reads no files.",
        "Read files with `path:` through a connection of type `files`, or use a format of a topic's values: `json`, "
        "`csv`, `string`, `bytes`, or `avro` with `schema:`.",
    ),
    "git-missing": Condition(
        "A plan compares the project with a commit, and the project is in no git repository, or there is no git.",
        "Run it in a clone, or compare with a manifest.json: `lakesql plan --state DIR`.",
    ),
    "git-nested": Condition(
        "A folder of the project is a git repository of its own (a submodule, or a clone within a clone), so the "
        "commit that a plan compares with does not have its files.",
        "Compare with a manifest.json of the former version: `lakesql plan --state DIR`.",
    ),
    "git-ref": Condition(
        "The commit that a project is to be compared with is not there.",
        "Correct the name after --against, or fetch it.",
    ),
    "group-column": Condition(
        "A rule in `tables={'columns': …}` of a group changes a column of a table's key, or leaves a table no column.",
        "Name other columns in the rule, or give the table a file of its own, GROUP.TABLE.sql.",
    ),
    "group-empty": Condition(
        "A group has a route, and nobody knows a value of it: no file declares one, and the newest records of the "
        "topic have none, or this machine has not looked at them.",
        "Run it, which looks at the topic; or declare the values under `source_tables` in a file of streams/. Where "
        "there are records: correct the `route`, so that it names the column that they have.",
    ),
    "group-key": Condition(
        "A table of a feed has no primary key, and the mode of the group that mirrors it needs one; or the stream of a "
        "route declares none.",
        "Leave it out (`tables={'exclude': ['public.log']}`), or give it a file of its own, GROUP.TABLE.sql, in "
        "mode `append`. With a route: name the keys in the group's file, `keys=['id']`.",
    ),
    "group-not-in-keys": Condition(
        "A model groups by something that its `keys` do not tell apart: several rows would have one key.",
        "Select it and add it to `keys`, use `any_value(…)` of it instead of grouping by it, or name `sequence_by`.",
    ),
    "group-build": Condition(
        "`lakesql build` tests each table before the models that read it, and the tables of a group that says "
        "`consistent=True` are done together.",
        "Run the group, and test its tables then: `lakesql run --select GROUP`, `lakesql test --select GROUP`.",
    ),
    "group-part": Condition(
        "A run has some models, and not all, of a group that says `consistent=True`.",
        "Run all of the group: `lakesql run --select GROUP`.",
    ),
    "group-route": Condition(
        "A group makes tables of the values of a column (`route`), and they cannot be told by that: it is no string of "
        "the stream; the stream is a change feed, is not read from topics by their names, not JSON, or starts at "
        "`latest`; or mode, names, or the SELECT ask for what such records do not have. Or the column has more than "
        "1,000 values that no file declares, which is no kind of a record: none of these gets a table.",
        "Do what the message says; or write a model for each value, with a WHERE.",
    ),
    "group-stream": Condition(
        "The file of a group reads something of which no tables are made: no change feed, files, several streams, "
        "or one that declares columns.",
        "Let it read one change feed by `{{ stream('…') }}` that declares neither `columns` nor a `key`; or name the "
        "column of its records that says of which table each is: `tables={'route': 'event_type'}`.",
    ),
    "group-transactions": Condition(
        "A group says `consistent=True`, and the feed that it reads does not tell of transactions.",
        "Leave `consistent` out, or read a connector of Debezium's as it writes: `envelope: debezium`, in JSON, with "
        "`provide.transaction.metadata=true` in the connector.",
    ),
    "input-expired": Condition(
        "A view says `refresh='incremental'`, and the snapshot of a table that its rows were made of is gone: it "
        "has expired, or the table was rolled back or made anew.",
        "Make all rows anew: `lakesql rebuild MODEL`. Leave `refresh` out, and a refresh does so by itself.",
    ),
    "input-not-iceberg": Condition(
        "A model over tables reads one that is no Iceberg table, so that no snapshot says what it held.",
        "Read it by a stream into a table of its own, or give the model an Iceberg table.",
    ),
    "internal": Condition(
        "lakesql met a state that its authors thought impossible.",
        "This is a defect of lakesql: report it with the command's output under `--debug`.",
    ),
    "jar-checksum": Condition(
        "A jar in the cache, or one just fetched, is not the file that lakesql was built with.",
        "Run again: it is fetched again. If this is the error again, the repository or a proxy serves another file.",
    ),
    "jars-unreachable": Condition(
        "The jars that Spark needs beside its own could not be fetched.",
        "Check the network and the proxy (`HTTPS_PROXY`), or name another Maven repository in `LAKESQL_MAVEN_URL`.",
    ),
    "java-ended": Condition(
        "The Java process of Spark ended while models ran: it was killed, or ran out of memory.",
        "Run again. If it happens again, give it memory: `spark.driver.memory` in the target's `spark.conf`. `logs/` "
        "holds its last output; a status of 137 or -9 usually means that the system ran out of memory.",
    ),
    "java-missing": Condition(
        "There is no Java on this machine, or none that can be run.",
        "In lakesql's folder: `pip install '.[java]'`. Or put Java 17 or 21 on `PATH` (a JRE is enough), or point "
        "`JAVA_HOME` at it.",
    ),
    "java-version": Condition(
        "Java is installed, in a version that Spark does not run on.",
        "In lakesql's folder: `pip install '.[java]'`. Or put Java 17 or 21 on `PATH` (a JRE is enough), or point "
        "`JAVA_HOME` at it.",
    ),
    "jvm-failed": Condition(
        "Java ended before Spark was up.",
        "Read the file that the message names. Often `spark.conf` asks for more memory than there is.",
    ),
    "kafka-option": Condition(
        "A Kafka connection has an option that lakesql sets itself, or that Kafka's client does not know or accept.",
        "Remove or correct it in the `options` of the connection in profiles.yml.",
    ),
    "join-range": Condition(
        "A join of streams bounds one side by a time that is not its watermark column. Spark takes the bound from that "
        "time and drops rows by the watermark column, so that rows are lost that still have partners to come.",
        "Add a range over the watermark columns of both streams, as long as the two may lie apart: `AND b.at <= a.at + "
        "INTERVAL 1 DAY`. Or put the watermark on the column that the condition compares.",
    ),
    "key-not-selected": Condition(
        "A column of `keys` is not among the columns of the SELECT.",
        "Select it, or correct the spelling.",
    ),
    "key-type": Condition(
        "A column in `keys` or `sequence_by` is a map or has one in it: Spark cannot say whether two maps are equal.",
        "Use a part of it, or its text: `to_json(m) AS key`.",
    ),
    "keys-changed": Condition(
        "A model has other `keys` than the rows of its table were written by.",
        "Put the keys back, or fill the table again: `lakesql rebuild MODEL`. A history of tables cannot be filled "
        "again: give the model another table.",
    ),
    "keys-needed": Condition(
        "A view has rows that nothing tells apart: it neither groups, nor says DISTINCT, nor has `keys`.",
        "Say which columns tell its rows apart: `keys`.",
    ),
    "keys-not-group": Condition(
        "The `keys` of a view are others than the columns of its GROUP BY, which tell its rows apart.",
        "Leave `keys` out.",
    ),
    "late-files": Condition(
        "All files of a stream that says `ordered_by: name` were listed, and some have come with smaller names than "
        "the last one that was read. The stream says `late_files: refuse`, or is a change feed, whose changes are in "
        "the order of its files.",
        "Give them larger names if they are to be read, or move them away; or let the stream read them behind the "
        "others, `late_files: read`. Nothing of them was read.",
    ),
    "late-unknown": Condition(
        "A model says `late='dead_letter'`, and which records came too late cannot be told: its GROUP BY by event time "
        "does not stand in the outermost SELECT, or is a `session_window`, or it joins streams.",
        "Group in the outermost SELECT, or leave `late` at `count`.",
    ),
    "lease-held": Condition(
        "Another runner runs the model.",
        "Let it run, or stop it first: SIGTERM ends it after its batch. The lease of a runner that died expires within "
        "15 seconds.",
    ),
    "lease-lost": Condition(
        "A runner was not heard of for longer than its lease lasts, and another one runs the model.",
        "Let the other one run: nothing was written twice.",
    ),
    "ledger-missing": Condition(
        "A checkpoint has written, and the table's history has no batch of the model.",
        "`lakesql rewind MODEL --to start` fills the table again; without `keys`, drop it first, if it holds rows. "
        "`--to checkpoint` continues with what has not been read yet.",
    ),
    "lineage-options": Condition(
        "The target's `lineage` has no type that lakesql knows, or its options do not say where events are to go.",
        "Correct it as the message says; docs/lineage.md has the options of each type.",
    ),
    "log-restarted": Condition(
        "All changes of a batch have positions in the database's log that are far below one that was read before them, "
        "and the model orders its rows by these: the log counts anew, as after a failover, a restore or with another "
        "server, and each change of a known row would be ignored.",
        "Let the connector take a new snapshot, let the stream begin with it (`start`, or another topic), and "
        "`lakesql rebuild MODEL`. Old changes that were sent again on purpose are skipped by "
        "`lakesql rewind MODEL --to TIME`.",
    ),
    "macro-not-pure": Condition(
        "A macro uses one of the seven names (`config`, `stream`, `this` …); it sees its arguments and other macros.",
        "Give the macro an argument, and pass the value from the model.",
    ),
    "maintenance-failed": Condition(
        "Maintenance that was run by itself has failed: of which tasks or tables, the message says.",
        "Do what the warning of each says. What was committed before stays, and the next call does the rest.",
    ),
    "maintenance-off": Condition(
        "A maintenance model calls a procedure that is switched off for the table.",
        "Remove the statement, or `false` from the model's `maintenance` option or its folder's.",
    ),
    "many-statements": Condition(
        "A model's file holds more than one statement.",
        "Keep one SELECT, and give every other one a file of its own.",
    ),
    "metrics-port": Condition(
        "The address and the port that `--metrics-address` and `--metrics-port` name cannot be listened on.",
        "Choose another port, or end the program that has it.",
    ),
    "missing-fixture": Condition(
        "A unit test names a fixture file that does not exist.",
        "Correct the path, which is relative to the project's folder, or write the file.",
    ),
    "missing-option": Condition(
        "An option that must be given is missing.",
        "Add the option; the docs page of the thing it belongs to lists its values.",
    ),
    "mixed-source-tables": Condition(
        "A topic has changes of two tables of the database, and the model takes them for those of one: a row of one "
        "would replace the row of the other that has the same key. The table that was read first stands in the ledger, "
        "so that a second one is noticed whenever it comes.",
        "Say in the stream which table it takes, `source_table: public.orders`, and declare a stream and a model for "
        "each other table. Where they are parts of one table, whose keys differ, name all of them, or use a `*`: "
        "`source_table: 'public.orders_*'`. In mode `upsert` the SELECT may look at `_change.source_table` instead: in "
        "its WHERE, or in a column that is one of the keys. Models of a group take each the changes of their own table "
        "once the project knows of all tables of the topic: `lakesql schema pull STREAM`.",
    ),
    "mode-changed": Condition(
        "A model is in another mode than the one in which the rows of its table were written, or a mirror that has "
        "kept what its source deletes is to delete it from now on.",
        "Put the mode, or `apply_deletes`, back, or fill the table again: `lakesql rebuild MODEL`. A history of tables "
        "cannot be filled again: give the model another table.",
    ),
    "nested-aggregate": Condition(
        "In mode `upsert` a SELECT aggregates the rows of an aggregate, or, in any mode, one side of a join of streams "
        "does, whose rows would be dropped as late.",
        "Let the table keep the rows of the inner aggregate: the outer one is asked where it is queried. Groups by "
        "event time can be finished first, in a model in mode `append`, and aggregated here: `stream('its_name')`. "
        "Instead of joining windows of windows collect what is compared, `max(n) AS most, collect_list(struct(k, n)) "
        "AS items`, and take `explode(filter(items, i -> i.n = most))` above it.",
    ),
    "name-not-called": Condition(
        "A function, a macro or `target` is named without being used: `{{ stream }}`.",
        "Call it, `stream('orders')`, or read a field, `target.name`.",
    ),
    "new-table": Condition(
        "A table has come into a feed that the project does not know, and its group says `new_tables: refuse`. The "
        "other tables were written.",
        "`lakesql schema pull STREAM` brings it into the project; `tables={'exclude': […]}` leaves it out.",
    ),
    "no-columns": Condition(
        "A stream declares no columns, and its records do not say them: none was seen on this target, they carry no "
        "schema, or those of several topics do not go together. Or a model keeps state of its rows. Or the stream has "
        "a `registry`, and the project has no schema of its subject.",
        "Declare the stream's `columns`; or set `schemas.enable=true` in the connector, and run the model once, which "
        "asks the topic. Of a registry: `lakesql schema pull`.",
    ),
    "no-offset": Condition(
        "Which rows a SELECT makes, or what finds and orders them, depends on `_record.offset`, and the records of a "
        "stream have no offset on this target: it is NULL. A WHERE by it would keep nothing, and say nothing.",
        "Order and choose by a column of the records, by `_record.timestamp`, or by a header that has the place: "
        "`CAST(element_at(filter(_record.headers, h -> h.key = 'sequence_number'), 1).value AS string)`. "
        "A column that is `_record.offset` and no more may stay.",
    ),
    "no-profiles": Condition(
        "There is no profiles.yml where lakesql looks for one.",
        "Write one beside pyproject.toml, or name its folder with `--profiles-dir`.",
    ),
    "no-project": Condition(
        "The directory holds no project.",
        "Go to the project, name it with `--project-dir`, or start one with `lakesql init`.",
    ),
    "no-records": Condition(
        "A unit test gives no record to a model that reads streams, so that it writes no batch and nothing is tested.",
        "Give a stream a batch that has one: `{stream: orders, batches: [[{order_id: 1}]]}`. Of records that the "
        "SELECT leaves out, or that are dead letters, there are no rows either.",
    ),
    "no-ref": Condition(
        "A file of the tests' folder reads no table of a model, so it is no data test.",
        "Name a model by `ref('…')`, or put SELECTs that are no tests elsewhere.",
    ),
    "no-settings": Condition(
        "pyproject.toml has no `[tool.lakesql]`.",
        'Add it, with at least `name = "…"`, or start a project with `lakesql init`.',
    ),
    "no-space": Condition(
        "The disk of the warehouse has less room left than the table has, which a rebuild writes once more.",
        "Make room first.",
    ),
    "no-stream": Condition(
        "In a mode that writes what arrives, a model's SELECT reads no stream, so nothing would keep its table fresh.",
        "Read a stream in FROM: `FROM {{ stream('…') }}`. Of tables as they are another mode makes a table: "
        "`materialized_view`, `table`, or `scd2`.",
    ),
    "no-table": Condition(
        "In a mode that makes a table of others, a model's SELECT reads none.",
        "Read the table of a model by `ref('…')`, or another one by its whole name.",
    ),
    "no-usable-record": Condition(
        "Each record that a model has read in a run is a dead letter, and its table has no row: the model and what it "
        "reads do not fit, whatever `max_dead_letter_ratio` says of a few.",
        "`lakesql show MODEL --dead-letters` says what is wrong with each. Correct the stream or the model, and read "
        "them again: `lakesql replay MODEL`, or of a change feed `lakesql rebuild MODEL`.",
    ),
    "not-a-catalog": Condition(
        "Something answers at the catalog's `uri`, and it is no Iceberg REST catalog: a web page, for instance.",
        "Correct `uri` of the target's `catalog`: the address before the catalog's `/v1/config`.",
    ),
    "not-a-macro": Condition(
        "A file under the macro paths holds something other than macros and comments.",
        "Move it into a macro, or into a model.",
    ),
    "not-a-select": Condition(
        "A model's file is not one SELECT.",
        "Write one SELECT that reads a stream; lakesql makes the statements that create and write tables.",
    ),
    "no-samples": Condition(
        "`lakesql infer` has found nothing that it can say a contract of: no file or record is there, none can be "
        "read, the files are on no disk of this machine, or values name schemas of a registry that nobody has named.",
        "Name a file, a folder, a pattern in quotes or a topic that has some; of a target's own by `--connection`, and "
        "where values name schemas, by `--registry`.",
    ),
    "not-a-topic": Condition(
        "`lakesql record` is to record a stream that the target does not read from a broker or a queue.",
        "Name a target that does: `--target prod`.",
    ),
    "not-accessible": Condition(
        "The machine refused to read or write a file of the project.",
        "Check the permissions of what the message names, and the free space. `--target-path` and `--log-path` name "
        "other folders for what lakesql writes beside the tables.",
    ),
    "never-begins": Condition(
        "A WHERE compares with what the model's own table holds. While that is empty the comparison is NULL or false "
        "for every row, so that none ever enters.",
        "Say what holds for an empty table: `WHERE at > coalesce((SELECT max(at) FROM {{ this }}), TIMESTAMP "
        "'1970-01-01')`.",
    ),
    "not-grouped": Condition(
        "A SELECT with GROUP BY or an aggregate names a column that is neither grouped by nor aggregated.",
        "Add it to GROUP BY, or aggregate it: `any_value(c)`.",
    ),
    "not-incremental": Condition(
        "A view says `refresh='incremental'`, and which of its rows a change reaches cannot be told.",
        "Leave `refresh` out, and all rows are made anew where something has changed; or change what the message "
        "names.",
    ),
    "not-text": Condition(
        "A file of the project is not UTF-8.",
        "Save it as UTF-8.",
    ),
    "nothing-lost": Condition(
        "`--accept-data-loss` was given, and no record is lost.",
        "Leave the option out.",
    ),
    "old-unreadable": Condition(
        "The version that a project is compared with cannot be read by this version of lakesql.",
        "Compare with a later version: `lakesql plan --against REF`. Nothing is guessed of one that cannot be read.",
    ),
    "order-over-stream": Condition(
        "ORDER BY, SORT BY, CLUSTER BY, LIMIT or OFFSET stands over a stream, of which it would see one batch.",
        "Leave it out. `order_by` of `config(...)` orders the rows within the table's files.",
    ),
    "order-type": Condition(
        "A column in `order_by` is a struct, an array or a map, by which Iceberg orders no rows.",
        "Order by a field of it, which the SELECT gives as a column of its own.",
    ),
    "outer-join": Condition(
        "An outer, semi or anti join keeps rows of a table that no record of the stream has met yet, or joins streams "
        "without a range of event time.",
        "Put the stream on the side whose rows are all kept: `FROM stream LEFT JOIN table`.",
    ),
    "outside-project": Condition(
        "A path of a stream or of the settings leaves the project's directory, or the connection's.",
        "Use a relative path without `..`; the connection's own path, in profiles.yml, may be anywhere.",
    ),
    "parameter-marker": Condition(
        "A `?` or `:name` stands for a value that nobody gives.",
        "Use `var('…')` of the template.",
    ),
    "partition-lost": Condition(
        "Somebody has dropped a column by which the table was partitioned, now or once: Iceberg cannot merge into such "
        "a table any more. lakesql itself keeps the column.",
        "Fill a new table: `lakesql drop MODEL`, then run the model. No later ALTER brings the column back.",
    ),
    "partition-name-taken": Condition(
        "A column of the SELECT is named as Iceberg names a field of `partition_by`: `ts_day` beside `days(ts)`.",
        "Give the column another name with `AS`.",
    ),
    "partition-type": Condition(
        "A transform of `partition_by` does not accept the type of its column, such as `days(c)` of a text.",
        "Use another transform, or cast the column.",
    ),
    "path-in-from": Condition(
        "A FROM reads files by their path, such as ``parquet.`/data` ``.",
        "Declare a stream for the files, or write the table's whole name in three parts.",
    ),
    "pivot-over-stream": Condition(
        "PIVOT is asked of a stream.",
        "Use an aggregate per column: `sum(x) FILTER (WHERE …)`.",
    ),
    "project-exists": Condition(
        "`lakesql init` would overwrite files that exist.",
        "Name another folder, or move the files that the message lists.",
    ),
    "queue-forbidden": Condition(
        "The connection's user may not use a queue that tells of files.",
        "Allow `sqs:GetQueueUrl`, `sqs:GetQueueAttributes`, `sqs:ReceiveMessage` and `sqs:DeleteMessage`.",
    ),
    "recording-exists": Condition(
        "`lakesql record` would write beside a recording that exists.",
        "Replace it with `--replace`, or write elsewhere with `--output`.",
    ),
    "recursive-cte": Condition(
        "A common table expression is recursive.",
        "Write it as a join.",
    ),
    "redundant-partition": Condition(
        "`partition_by` has a column twice in one way: two of years, months, days and hours, or one transform twice.",
        "Keep the one that the queries filter by; of times, the finer one.",
    ),
    "reference-not-literal": Condition(
        "`stream`, `ref` or `var` is not given its name as one text literal, so edges cannot be read from the file.",
        "Write the name out: `stream('orders')`.",
    ),
    "removed-option": Condition(
        "A model or a folder's defaults have an option that this version no longer has.",
        "Remove it.",
    ),
    "rename-impossible": Condition(
        "`lakesql rename` cannot take along what there is of a model: there is nothing of the old name, the new one "
        "has a table or a checkpoint already, a rebuild is not done, or the catalog cannot rename tables.",
        "Do what the message says, then give the command again. Nothing was changed.",
    ),
    "rename-under-way": Condition(
        "A `lakesql rename` of the model broke off, or is still at it: table, ledger and checkpoint may have two "
        "names.",
        "Give the same command again: it continues where it stands.",
    ),
    "replay-impossible": Condition(
        "The dead letters of a model cannot be read again: it keeps state, nothing says whether they are newer than "
        "the rows in its table, or they do not hold all that the model reads of a record.",
        "Do what the message says; `lakesql rebuild MODEL` reads all records again.",
    ),
    "reserved-column": Condition(
        "A column or alias has a name of lakesql's own: `_record`, `_change`, or one that begins with `_lakesql_`. Or "
        "a column of a table has a name that Iceberg or Spark's MERGE keeps for itself, in small letters or capitals: "
        "`_file`, `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id`, `_last_updated_sequence_number`, "
        "`_change_type`, `_change_ordinal`, `_commit_snapshot_id`, `__row_operation` and the like.",
        "Use another name, as in `_record.offset AS source_offset`. Where a record stood is in `_record`.",
    ),
    "reserved-name": Condition(
        "A template gives one of the names that lakesql offers to templates to something of its own.",
        "Use another name.",
    ),
    "random-key": Condition(
        "A key of a view has another value each time that it is computed.",
        "Take a key that is the same each time.",
    ),
    "rebuild-impossible": Condition(
        "A table cannot be rebuilt: its stream starts at `latest`, or has no times to begin at; or a table to merge "
        "into would lose a column by which it is or was partitioned.",
        "Give `--from` another value, or keep the column.",
    ),
    "protobuf-schema": Condition(
        "The Protobuf schema of a stream is none, its message or a column of the contract is in none of its schemas, "
        "or a field is of a type that no column holds.",
        "Correct `message`, the file, or the contract.",
    ),
    "rebuild-outdated": Condition(
        "The table that a rebuild fills cannot become the model's: it was begun for another version of the model, the "
        "live table was altered meanwhile, or it is not a rebuild's.",
        "Remove what was begun with `lakesql rebuild MODEL --abandon`, and begin again.",
    ),
    "rebuild-under-way": Condition(
        "A model is being rebuilt by another process, or its rebuild was stopped.",
        "Wait until that is done. To continue a rebuild that was stopped, or has broken off: `lakesql rebuild MODEL`.",
    ),
    "registry-options": Condition(
        "The options of a schema registry contradict each other, or its client does not take them.",
        "Give a `url`, or a `path`; `user` and `password`, or a `token`; and in `options` only what has no key.",
    ),
    "registry-stateful": Condition(
        "A model that keeps state (an aggregate, a join of streams, a DISTINCT) reads a stream with a `registry`: its "
        "query cannot take up a schema that is new while it runs.",
        "Land the stream with a model in mode `append`, and let the model that keeps state read that one's table, by "
        "`stream('landed')`.",
    ),
    "registry-unreachable": Condition(
        "A schema registry does not answer, or the folder in its place is not there. The batch is read again.",
        "Look whether it runs, and correct `url`, `path` or `ca` of the connection.",
    ),
    "results-missing": Condition(
        "There is no run_results.json for `result:`, nor for data tests a test_results.json: nothing has been run into "
        "that folder.",
        "Run something first, or name with `--state` the folder that a run has written, such as a copy of target/.",
    ),
    "results-unreadable": Condition(
        "The run_results.json or test_results.json for `result:` is not what a command of lakesql writes.",
        "Name with `--state` a folder that `lakesql run`, `test` or `build` has written.",
    ),
    "retention-property": Condition(
        "A table property of Iceberg's says how long snapshots are kept, and lakesql's expiry has an option for it.",
        "Write `older_than` or `retain_last` of `expire_snapshots`, or `'expire_snapshots': False` where it is another "
        "engine that expires them.",
    ),
    "rewind-duplicates": Condition(
        "`lakesql rewind`, to the start or to a time, would have a model without `keys` read records again, while "
        "its table holds rows: they would be duplicates. Or a stream has another name, and nothing tells that its "
        "topics are those that were read before.",
        "Drop the table first, or delete the rows of those records, or accept duplicates with `--allow-duplicates`. Or "
        "give the stream its name back.",
    ),
    "rewind-impossible": Condition(
        "A model cannot continue from the position that `lakesql rewind` is given.",
        "Choose another position: `lakesql rewind --help` lists them.",
    ),
    "sample-over-stream": Condition(
        "TABLESAMPLE is asked of a stream; it would select other rows when a batch is repeated.",
        "Filter by a hash of the key: `WHERE hash(id) % 10 = 0`.",
    ),
    "schema-change": Condition(
        "The columns or the partitions of a model and of its table differ, and the model's `on_schema_change` leaves "
        "them so: `fail`; `ignore`, where an option names the column; `sync_all_columns`, where somebody else's table "
        "would lose columns. Or a history without `track_columns` has lost a column: versions that differ in it alone "
        "would become one.",
        "Change the SELECT, alter the table, or set `on_schema_change` to `append_new_columns` or `sync_all_columns`. "
        "Of a history, say in `track_columns` what makes a version.",
    ),
    "script-transform": Condition(
        "`SELECT TRANSFORM … USING` runs a program.",
        "Write it in SQL.",
    ),
    "secret-in-vars": Condition(
        "The value of a `LAKESQL_SECRET_…` variable stands in `--vars`, from where it would come into compiled SQL.",
        "Keep secrets in profiles.yml, by `env_var`.",
    ),
    "secret-on-command-line": Condition(
        "A secret stands in an option of Java's, which everybody on the machine can read in the list of processes.",
        "Put it into a file that the option names, or into a setting of `spark.conf` that is no Java option.",
    ),
    "seed-columns": Condition(
        "The header of a seed's file and its contract do not name the same columns.",
        "Correct the header or the contract: each column of one stands in the other, in any order.",
    ),
    "seed-not-filled": Condition(
        "The table of a seed cannot be written: the catalog or the storage refuses it, or others have altered it.",
        "Do what the message says, and fill it again: `lakesql seed`. The table is as it was. Where the catalog takes "
        "no other columns, as that of Hive or Nessie, make it anew: `lakesql drop SEED`, `lakesql seed`.",
    ),
    "seed-syntax": Condition(
        "The file of a seed is no table in CSV: a record has more or fewer values than the header, a quote is never "
        "closed, or there is no header.",
        "Correct the record where the message points. A value with the delimiter, a quote or a line break in it stands "
        "in double quotes, and a quote within is doubled.",
    ),
    "seed-value": Condition(
        "A value in the file of a seed is none of its column's type, or an empty field is one of a required column.",
        "Correct the value where the message points, or the type in the contract.",
    ),
    "selector-cycle": Condition(
        "A selector of selectors.yml names itself, directly or through others.",
        "Let one of them say what it selects without naming the other.",
    ),
    "sequence-not-selected": Condition(
        "A model over a change feed names in `sequence_by` what its SELECT has not as the feed brings it.",
        "Add it to the SELECT, `_change.position AS position` or a plain column of the stream: the table keeps it, to "
        "tell an older change from a newer one.",
    ),
    "session-in-upsert": Condition(
        "In mode `upsert` a SELECT groups by session_window: a session that grows would be a row of another key, and "
        "Spark has no sessions there.",
        "Use mode `append` and a stream with a watermark: a session's row is written when it can no longer grow.",
    ),
    "session-without-key": Condition(
        "A SELECT over streams groups by session_window and by nothing else: Spark keeps the sessions of a key alone.",
        "Group by a key too, whose sessions they are: `GROUP BY user_id, session_window(at, '30 minutes')`. For the "
        "sessions of all rows together, select a column that has one value, `'all' AS of` in a subquery over the stream, "
        "and group by that.",
    ),
    "set-operation": Condition(
        "INTERSECT, EXCEPT or MINUS compares a stream with something; a stream is never complete.",
        "Use a LEFT SEMI JOIN or LEFT ANTI JOIN with a table.",
    ),
    "shallow-clone": Condition(
        "A clone lacks the commit that a project is to be compared with, as it has the newest ones alone.",
        "Fetch the others: `git fetch --unshallow`; in CI, check out with `fetch-depth: 0`.",
    ),
    "source-missing": Condition(
        "The `type` of a connection names a file of the project's `sources/` that is not there.",
        "Correct the path, which is relative to the project's folder: `type: sources/redis.py`.",
    ),
    "spark-missing": Condition(
        "pyspark is not installed, so nothing can be run.",
        "In a checkout of lakesql: `pip install '.[spark]'`.",
    ),
    "spark-open": Condition(
        "A command that needs Spark is called in a process that has a Spark session open, such as a notebook's. A "
        "process has one Spark, whose catalogs the command would have in the place of the target's.",
        "Call the command in a process of its own: in Python, `subprocess.run(['lakesql', 'run'])`.",
    ),
    "spark-option": Condition(
        "`spark.conf` of the target has a key that is said elsewhere in the target, that would keep what is written "
        "from its readers, that gives a type another meaning, or that is no setting of Spark's.",
        "Move or correct the key as the message says. `spark.hadoop.…` are settings of Hadoop.",
    ),
    "spark-refused": Condition(
        "Spark does not start with what the target says.",
        "Correct `spark` of the target in profiles.yml: its `master`, and its `conf`.",
    ),
    "spark-unreachable": Condition(
        "The Spark master that the target names does not take a connection.",
        "Start it, or correct `master` of the target's `spark`; the message says what each of its addresses answered.",
    ),
    "sql-syntax": Condition(
        "A model's SQL cannot be read, or Spark and lakesql would read it differently.",
        "Correct it at the place that the message names.",
    ),
    "star-in-function": Condition(
        "A function is given `*` of a stream, which has columns of lakesql's beside its own where the model is in mode "
        "`upsert` or uses `_record`.",
        "Name the columns.",
    ),
    "star-with-record": Condition(
        "The SELECT uses `_record` or `_change`, and a `*` of the stream stands where rows are told apart: under "
        "DISTINCT, under GROUP BY ALL, or in a UNION. It takes in these columns too, in which each record differs.",
        "Name the columns, or leave these out: `* EXCEPT (_record)`.",
    ),
    "state-changed": Condition(
        "A model keeps other state between batches than its checkpoint holds.",
        "`lakesql rebuild MODEL` fills the table again: rows of groups that are no more would stay otherwise.",
    ),
    "state-missing": Condition(
        "The folder after --state has no manifest.json.",
        "Name the folder that `lakesql parse` has written, such as a copy of target/.",
    ),
    "state-outdated": Condition(
        "The manifest.json after --state was written by a version of lakesql that kept less in it, or by another tool.",
        "Write it anew from that version of the project, by `lakesql parse` of this version of lakesql.",
    ),
    "storage-refused": Condition(
        "The tables' warehouse cannot be used: there is no such bucket or folder, or no right to it.",
        "Correct `warehouse` or the `s3.` keys of the target's `catalog` in profiles.yml, or create the bucket.",
    ),
    "storage-unreachable": Condition(
        "The storage of tables or checkpoints does not answer, or fails a run that had begun.",
        "Start it, or correct `s3.endpoint` and the other `s3.` keys of the target's `catalog` in profiles.yml.",
    ),
    "stream-exists": Condition(
        "`lakesql infer` would write the entry of a stream, or a file, that is there already.",
        "Print it with `--output -` and compare; `--force` replaces a file that has this stream and no other one. Or "
        "give the stream another `--name`.",
    ),
    "stream-in-expression": Condition(
        "A stream is read inside an expression (IN, EXISTS, a scalar subquery, LATERAL).",
        "Join it in FROM, or `ref()` the table that another model makes of it.",
    ),
    "stream-in-view": Condition(
        "A model in a mode that makes a table of others reads a stream, of which only what is new would come.",
        "Read the stream in a model of its own, in mode `append`, `upsert` or `cdc`, and its table by `ref('…')`.",
    ),
    "stream-of-keyed-model": Condition(
        "`stream('…')` names a model whose rows change, in a model that keeps state of its changes or reads another "
        "stream too; or one whose rows nothing tells apart.",
        "Log the changes in a model of mode `append` that reads nothing else, and read that one; or join its table "
        "with `ref('…')`; or give the first one keys.",
    ),
    "stream-empty": Condition(
        "With `--fail-if-empty`: a model has read nothing, as no file or topic matches, or no record is there.",
        "Correct the stream's `path`, `topic` or connection, or see why nothing arrives.",
    ),
    "no-views": Condition(
        "A model has mode `view`, and the target's catalog has no views.",
        "Use mode `table` or `materialized_view`, whose rows are stored, or another catalog.",
    ),
    "stream-of-view": Condition(
        "`stream('…')` names a model of mode `view`, in which nothing arrives.",
        "Read it with `ref('…')`, or give it mode `materialized_view`, whose changes can be read.",
    ),
    "expectation-of-view": Condition(
        "Something is expected of the rows of a view, which no run writes and so none looks at.",
        "Say it as a data test, or store the rows: mode `materialized_view` or `table`.",
    ),
    "stream-of-seed": Condition(
        "`stream('…')` names a seed, whose rows are replaced and never arrive.",
        "Join its table with `ref('…')`.",
    ),
    "stream-origin": Condition(
        "A stream says where it comes from in a way that does not fit: twice, or not as its connection needs it.",
        "Keep one of `topic`, `topics`, `pattern`, `path`: topics or a pattern for `kafka` and `recorded`, topics for "
        "other brokers, a path for `files`.",
    ),
    "streams-changed": Condition(
        "A model reads other streams than its checkpoint was made for, the same ones in another order, or one that was "
        "moved, such as from recorded files to Kafka.",
        "`lakesql rewind MODEL`: streams that stay continue, and a topic that has been read does so under another name "
        "of its stream too; new ones begin at their `start`. One that was moved is "
        "read from its start, or from a time on: `--to start`, `--to TIME`.",
    ),
    "table-ahead": Condition(
        "The newest snapshot of a table lies ahead of this machine's clock by more than a minute, so that Iceberg "
        "takes no commit: another machine has written it whose clock is ahead, or this one's is behind.",
        "Set the clocks right. Where the snapshot's time is wrong, wait until it has come, or roll the table back to "
        "the snapshot before it, then do what the next run says.",
    ),
    "table-behind": Condition(
        "A table lacks batches that its checkpoint has written: somebody has rolled it back.",
        "`lakesql rewind MODEL` writes them again; `--to checkpoint` leaves them out. A stateful model: `--to start`; "
        "without `keys`, drop the table first.",
    ),
    "table-left-out": Condition(
        "A table has come into a feed that the project does not know, and its group says `new_tables: ignore`.",
        "`lakesql schema pull STREAM` brings it into the project; `tables={'exclude': […]}` says that it is meant.",
    ),
    "table-missing": Condition(
        "A table that a command wants to read is not in the catalog.",
        "Run the model that writes it, or correct the name. That of a seed is filled by `lakesql seed`.",
    ),
    "table-recreated": Condition(
        "The table is another one than the checkpoint has filled: it was dropped, and perhaps created again.",
        "`lakesql rewind MODEL --to start` fills it again; without `keys`, drop it first, if it holds rows. "
        "`--to checkpoint` continues with what has not been read yet.",
    ),
    "table-not-of-seed": Condition(
        "In the catalog is a table with the name of a seed, which this seed of this project has not made.",
        "Give the seed another name, or the target another `namespace`; or move or drop the table.",
    ),
    "table-of-another": Condition(
        "A model in mode `append` is to begin with a table whose rows another model has written: it was renamed and "
        "its option `table` names the old table, or another project has the same table.",
        "After a rename: `lakesql rename OLD NEW` takes ledger and checkpoint along. Otherwise the message has the "
        "commands that read the streams all the same.",
    ),
    "table-rebuilt": Condition(
        "While a run had a model, its table was rebuilt from another version of the model.",
        "Start the run again: it continues with the version that is in the project now.",
    ),
    "table-unfit": Condition(
        "A table of a feed was found by a run and gets no model in its group: it has no key, a column of a type "
        "that no table has, or the name of another one. The other tables were written.",
        "Do what the message says; `tables={'exclude': […]}` leaves the table out.",
    ),
    "table-unreadable": Condition(
        "The catalog knows a table, and its metadata or data files cannot be read: they do not exist, may not be "
        "read, or hold what pyiceberg does not know, such as a column of type variant.",
        "Do what the message says. When the files were deleted by hand, drop the table.",
    ),
    "template-failed": Condition(
        "An expression of a template cannot be computed with the values it met, or what it writes is not SQL: a list, "
        "a mapping, or a comment (`--`) that would take in the text behind it.",
        "Correct the expression; the place is the model's, the message says which macro it was in.",
    ),
    "template-forbidden": Condition(
        "A template uses what templates do not have: attributes of Python objects, imports, other filters than theirs.",
        "Use the methods, filters and tests that the docs list, or a macro.",
    ),
    "template-syntax": Condition(
        "The file is not valid Jinja.",
        "Correct it where the message points.",
    ),
    "template-too-large": Condition(
        "A template goes beyond its bounds: its size, its steps, the text or the numbers that it makes.",
        "Write less by template; large data belongs in a table.",
    ),
    "test-failed": Condition(
        "Data tests or unit tests of a model fail in `lakesql build`: the models that read it are not run.",
        "Look at the failing rows, which the command shows; correct the source or the model, or the test.",
    ),
    "test-not-recorded": Condition(
        "`lakesql test --record` cannot make a unit test of what is recorded, or not of this model.",
        "Do as the message says: another name or target, other records, or a test that is written by hand.",
    ),
    "test-template": Condition(
        "A file of the tests' folder uses what a data test has not: a stream, or a table of its own.",
        "Read tables of models by `ref('…')`.",
    ),
    "test-unanswered": Condition(
        "The SELECT of a data test cannot be run: it is not one for Spark, or Spark cannot be started.",
        "Correct it as the message says; its compiled text is under target/compiled.",
    ),
    "text-untraceable": Condition(
        "A stream says `invalid_text: dead_letter`, and a model that keeps state may make text of bytes: a row of it "
        "is made of many records, of which none could be set aside.",
        "Read what the stream reads by another stream, without `invalid_text`: U+FFFD stands for such bytes then, and "
        "is counted.",
    ),
    "toml-syntax": Condition(
        "pyproject.toml is not TOML.",
        "Correct it where the message points.",
    ),
    "this-missing": Condition(
        "A model reads its own table, `{{ this }}`, which does not exist yet, and its types are not known.",
        "Cast the columns in the SELECT, so that the table can be made before it is read.",
    ),
    "too-many-dead-letters": Condition(
        "More records of a batch would be dead letters than `max_dead_letter_ratio` allows; nothing of it was written.",
        "Correct the records or the contract, or raise the ratio.",
    ),
    "too-many-deletes": Condition(
        "A batch would delete more of the table's rows than `max_delete_ratio` allows; nothing of it was written.",
        "See whether the source means it; if it does, raise the ratio for one run.",
    ),
    "tool-ended": Condition(
        "The process that answers a call of a tool of `lakesql mcp` has ended without an answer.",
        "Call the tool again; if it ends again, ask for less, or run the command of its name in a terminal.",
    ),
    "tool-guard": Condition(
        "A tool of `lakesql mcp` that only reads was about to write, to start a program, to open a connection, or to "
        "read a file outside of the project: a file of the project has led it there.",
        "Run the command of the tool's name in a terminal, if what the message says is meant.",
    ),
    "tool-not-allowed": Condition(
        "An assistant has called a tool of `lakesql mcp` that changes something, and the server does not allow it.",
        "Ask whoever starts the server: `lakesql mcp --allow run` lets an assistant run models, `--allow test` tests.",
    ),
    "tool-timeout": Condition(
        "A call of a tool of `lakesql mcp` has taken too long, and was ended.",
        "Ask for less, with `select` or a name; or start the server with a longer `--timeout`, or `--run-timeout`.",
    ),
    "topic-forbidden": Condition(
        "The connection's user may not read a topic.",
        "Let the broker's administrator allow READ and DESCRIBE on the topic, or use another user.",
    ),
    "topic-recreated": Condition(
        "A topic was deleted and created again since it was read.",
        "`lakesql rewind MODEL` reads the new one from its beginning. Where the model keeps state, or its table has no "
        "batch yet: `--to start`; without `keys`, drop the table first, if it holds rows.",
    ),
    "transaction-incomplete": Condition(
        "A group that says `consistent=True` has waited ten minutes for changes of a transaction, or for its end.",
        "See whether the connector runs. What does not come any more, as the topics have not kept it, is let go by "
        "`lakesql run --select GROUP --accept-data-loss`: what there is of such transactions is taken as it is.",
    ),
    "type-change": Condition(
        "A column of a model has another type than the table's column, and Iceberg cannot turn one into the other, or "
        "the model says on_schema_change='ignore'.",
        "Cast it in the SELECT to the table's type, or give the new column another name.",
    ),
    "undefined-variable": Condition(
        "A template uses a name, an entry or a `var` that nothing gives a value.",
        "Correct the spelling, or set the variable in `[tool.lakesql.vars]` or with `--vars`.",
    ),
    "union-star": Condition(
        "The branches of a UNION ALL put the stream's own columns in different places, because some use `*`.",
        "Name the columns in every branch, or begin every branch with the same number of columns before its `*`.",
    ),
    "union-without-stream": Condition(
        "A branch of a UNION reads no stream, so every batch would add its rows again.",
        "Read tables in a join, or in a model of their own.",
    ),
    "unknown-alias": Condition(
        "A name in the SELECT is qualified with something that is neither in its FROM nor a column.",
        "Use one of the names in FROM: where a table has an alias, the alias alone.",
    ),
    "unknown-catalog-type": Condition(
        "The `type` of the target's catalog is not one that lakesql can open.",
        "Use one of the types that the message lists.",
    ),
    "truncate-refused": Condition(
        "The source of a mirror was truncated, and the model says `on_truncate='fail'`, or its stream reads several "
        "topics, of which one has the truncate, or the truncate lacks the field of `_change` by which the changes are "
        "ordered. No history takes one.",
        "If the rows are to go, run once with `on_truncate='apply'`; otherwise fill the source again, and rebuild the "
        "model. Mirror each of several topics by a stream and a model of its own. Where truncates have no "
        "`_change.position`, leave it out of `sequence_by`, and rebuild the model.",
    ),
    "unknown-column": Condition(
        "A SELECT, an option of a model or a stream, `--mask` of `lakesql record`, or `lakesql lineage` names a column "
        "that does not exist.",
        "Correct the name, or add the column.",
    ),
    "unknown-connection": Condition(
        "A stream names a connection that the target does not have.",
        "Add it to the target's `connections`, or correct the name.",
    ),
    "unknown-connection-type": Condition(
        "A connection has no type, or one that lakesql does not know.",
        "Use `recorded`, `files`, `rate`, `kafka` or `registry`.",
    ),
    "unknown-field": Condition(
        "A SELECT names a field that a struct does not have.",
        "Correct the name, or add the field to the contract of the stream.",
    ),
    "unknown-folder": Condition(
        "`[tool.lakesql.models]` has defaults for a folder or a model that does not exist, or `[tool.lakesql.paths]` "
        "names a folder that is not there.",
        "Correct the name, or remove the entry.",
    ),
    "unknown-function": Condition(
        "A SELECT calls a function that Spark does not have.",
        "Correct the name. Functions of other databases mostly have another name in Spark.",
    ),
    "unknown-mode": Condition(
        "`mode` is not one of lakesql's modes.",
        "Use one of those that the message lists.",
    ),
    "unknown-model": Condition(
        "A properties file describes a model that does not exist, or a command such as `lakesql show` is given one.",
        "Correct the name, or remove the entry.",
    ),
    "unknown-option": Condition(
        "A key is not an option of the thing it stands in: a mode, a stream, a connection, a target.",
        "Correct the spelling, or remove the key. Keys that start with `x-` are passed over, but not among names of "
        "your own (columns, connections).",
    ),
    "unknown-partition-field": Condition(
        "A task of maintenance orders manifests by what is no partition field of the table.",
        "Name the fields as the table has them, such as `at_day` of `days(at)`, or leave `sort_by` out.",
    ),
    "unknown-partition-spec": Condition(
        "A task of maintenance asks for a partition spec that the table does not have.",
        "Name one that it has, or leave the option out.",
    ),
    "unknown-profile": Condition(
        "profiles.yml has no profile of the project's name.",
        "Add it, or set `profile` in `[tool.lakesql]`.",
    ),
    "unknown-queue": Condition(
        "A queue that the `notifications` of a stream name does not exist at the connection.",
        "Correct the name, the region or the account, or create the queue.",
    ),
    "unknown-ref": Condition(
        "`ref('…')` names no model.",
        "Correct the name.",
    ),
    "unknown-seed": Condition(
        "A properties file declares a seed, or a command names one, that has no file.",
        "Correct the name, or put the rows into a .csv file of that name in seeds/.",
    ),
    "unknown-selector": Condition(
        "There is no selector of this name in selectors.yml.",
        "Correct the name, or define it.",
    ),
    "unknown-source-table": Condition(
        "A name of a table of a feed is that of none which a file declares or a run has found.",
        "Correct it. `lakesql schema pull STREAM` brings the tables of the feed into the project.",
    ),
    "unknown-stream": Condition(
        "`stream('…')` names neither a declared stream nor a model, or `lakesql record` is given a stream that is not "
        "declared.",
        "Correct the name, or declare the stream.",
    ),
    "unknown-table": Condition(
        "A FROM names something that is neither a stream of the model nor a common table expression.",
        "Write `{{ stream('…') }}` or `{{ ref('…') }}`, or the table's whole name.",
    ),
    "unknown-target": Condition(
        "The profile has no output of this name.",
        "Correct `--target`, or add the output.",
    ),
    "unknown-test": Condition(
        "A properties file names a test that lakesql does not have.",
        "Use one of those that [tests.md](tests.md) lists, or write a SELECT into tests/.",
    ),
    "unknown-subject": Condition(
        "A registry does not have the subject of a stream, or has no schema of the stream's format there.",
        "Correct `subject`, or give the stream one: the default is `<topic>-value`.",
    ),
    "unknown-topic": Condition(
        "A topic that a stream names does not exist at the broker.",
        "Correct the name, or create the topic.",
    ),
    "unknown-type": Condition(
        "A column's type is not one of Spark SQL's.",
        "Correct it; nested types are written `struct<a: int>`, `array<int>`, `map<string, int>`.",
    ),
    "unnamed-column": Condition(
        "An expression of the SELECT has no name, and would become a column of the table.",
        "Give it a name with `AS`.",
    ),
    "upstream-expired": Condition(
        "A model that is new, that was rewound, or that reads this stream since it was changed is to begin with the "
        "stream of a table whose first snapshots have expired, so that rows would be missing; or the snapshot up to "
        "which it has read the table is gone.",
        "Rebuild the model that writes the table, or run once with `--accept-data-loss`. Where the message says so, "
        "rebuild the model that reads it.",
    ),
    "upstream-rolled-back": Condition(
        "A table that a model streams was rolled back behind the snapshot up to which it was read.",
        "Rebuild the model that reads it, or set the table forward to that snapshot again.",
    ),
    "upstream-rebuilt": Condition(
        "A model streams the table of another model, which was rebuilt since it was last read.",
        "Rebuild this model too: `lakesql rebuild MODEL+` rebuilds a model and all that read it.",
    ),
    "upsert-over-feed": Condition(
        "A model in mode `upsert` reads a change feed, and does not tell deletes from updates.",
        "Use mode `cdc`. Or select `_change.op AS op` and say `delete_when=\"op = 'd'\"`, or leave deletes out: "
        "`WHERE _change.op <> 'd'`.",
    ),
    "upsert-over-join": Condition(
        "A model that updates rows, as in mode `upsert`, joins two streams; Spark only appends rows of such joins.",
        "Write the join as a model in mode `append`, and read its table here: `stream('its_name')`.",
    ),
    "usage": Condition(
        "The command line is not one that lakesql understands.",
        "Read `lakesql --help`, or `--help` of the command.",
    ),
    "unread-file": Condition(
        "A file in a folder of the project would be passed over: its name ends in `.SQL` or `.YML`, it declares models "
        "or tests where no properties files are read, or it is a link that leads to nothing.",
        "Rename it, move it to the folder of the models, or remove it.",
    ),
    "unsafe-folder": Condition(
        "A checkpoint, a lease, a log, or what a stream reads lies in the folder of a table, or a table in that of a "
        "checkpoint.",
        "Give it a folder of its own: `checkpoints: .lakesql/checkpoints` beside `warehouse: .lakesql/warehouse`.",
    ),
    "unsafe-maintenance": Condition(
        "Maintenance is to delete files that somebody may still need.",
        "Give a longer time, or leave it out: the defaults are safe.",
    ),
    "unsupported-spark": Condition(
        "This Spark or Iceberg has not what lakesql writes to tables by.",
        "Install the versions that lakesql is made for: pip install 'lakesql[spark]'. A jar of `spark.jars` may be of "
        "another version too.",
    ),
    "unstorable-type": Condition(
        "A column has a type that no table of this format version can hold: an interval, a time, a variant, a void.",
        "Cast it, a variant to string. A void is held by tables with `properties={'format-version': '3'}`.",
    ),
    "variable-substitution": Condition(
        "`${…}` would be replaced by a setting or an environment variable before Spark reads the SQL.",
        "Use `var('…')` of the template; to mean the characters themselves, write `concat('$', '{…}')`.",
    ),
    "view-keys-twice": Condition(
        "A view, or a history of tables, has two rows of one key: its `keys` do not tell its rows apart.",
        "Add the columns to `keys` that do, or let the SELECT make one row of each key.",
    ),
    "warehouse-elsewhere": Condition(
        "All tables of an embedded catalog lie outside its warehouse: it was copied or moved. The catalog has the "
        "tables' whole paths, so a run would write to those of the original.",
        "Move the project back or set `warehouse` to where the tables are. Or remove the catalog's file and the "
        "checkpoints, to begin with empty tables.",
    ),
    "watermark-missing": Condition(
        "An aggregate whose rows are appended, as in mode `append`, is not grouped by event time of a stream with a "
        "watermark.",
        "Declare `watermark:` on the stream and group by `window(its_column, …)`, or use mode `upsert`. The table of a "
        "model that is read as a stream has a `watermark:` by the properties of that model.",
    ),
    "window-in-join": Condition(
        "The condition of a join calls `window()`, `session_window()` or `window_time()`, which Spark makes of the "
        "rows of one relation.",
        "Compare the time with the other side's window: `ON … AND b.at >= m.w.start AND b.at < m.w.end`.",
    ),
    "window-over-stream": Condition(
        "A window function over a stream would see the rows of one batch only.",
        "Use mode `upsert` with `sequence_by` for the newest row of a key, or group by `window(time, '…')`.",
    ),
    "wrong-credentials": Condition(
        "A broker, a schema registry or the issuer of its tokens refuses the login of the connection.",
        "Correct `sasl.mechanism` and `sasl.jaas.config` in the connection's options. A registry has `user` and "
        "`password`, a `token`, or `bearer.auth.*` in its options.",
    ),
    "wrong-argument-count": Condition(
        "A SELECT gives a function another number of arguments than it takes.",
        "Give it as many as the message says.",
    ),
    "wrong-type": Condition(
        "A value has another type than the option takes, or than the column that it is a value of.",
        "Write a value of the type that the message names.",
    ),
    "wrong-value": Condition(
        "A value is not one of those that the option takes.",
        "Use a value that the option takes: the message or the docs list them.",
    ),
    "yaml-duplicate-key": Condition(
        "A key stands twice in one YAML mapping.",
        "Remove one of the two.",
    ),
    "yaml-syntax": Condition(
        "A file is not YAML.",
        "Correct it where the message points.",
    ),
    "yaml-tag": Condition(
        "A YAML value has a tag such as `!!python/object`.",
        "Write plain texts, numbers, lists and mappings.",
    ),
    "yaml-too-large": Condition(
        "A YAML document grows too large when its aliases are expanded, or nests too deep.",
        "Write it out without them.",
    ),
}

UNREACHABLE = frozenset(
    {
        "catalog-unreachable",
        "connection-unreachable",
        "jars-unreachable",
        "registry-unreachable",
        "spark-unreachable",
        "storage-unreachable",
    }
)
"""The conditions of servers and storages that do not answer, and may at the next
attempt."""
