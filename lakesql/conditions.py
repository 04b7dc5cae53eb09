"""All conditions by name, each with its meaning and the advice: the source of
`docs/errors.md`.

Apart from `errors.py`, as it is a table that grows.
"""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """The meaning of a condition, and what the person who meets it should do."""

    meaning: str
    do: str


CONDITIONS: dict[str, Condition] = {
    "ambiguous-column": Condition(
        "A name in the SELECT may refer to a column of several tables that it reads, or to several aliases before it.",
        "Put the alias of the table before the name, or rename one of the columns.",
    ),
    "analysis-failed": Condition(
        "Spark's analyzer refuses the model's SELECT, for example because a column does not exist or types do not "
        "match.",
        "Correct the SELECT where the message points.",
    ),
    "archive-read": Condition(
        "The `archive` of a stream lies in the folder that the stream reads.",
        "Name a folder beside the one that is read: `path: landing/*.json`, `archive: done`. If the path names no "
        "folder, set the connection's `path` to the folder above.",
    ),
    "avro-schema": Condition(
        "The Avro schema file of a stream does not exist, is not an Avro schema, or lacks a column of the contract. "
        "With a `registry`, none of the subject's schemas has the column, or its type contains itself.",
        "Correct the path in `schema:`, the file, or the contract.",
    ),
    "bad-call": Condition(
        "A maintenance model holds something other than CALL statements of Iceberg's maintenance procedures, with "
        "named arguments, for the table of its model.",
        "Correct the statement where the message points: "
        "`CALL {{ target.catalog }}.system.rewrite_data_files(table => '{{ this }}')`.",
    ),
    "bad-column-name": Condition(
        "The name of a column is empty, or has a dot, a backtick or a control character.",
        "Give the column another name: in a SELECT with `AS`, in a contract with `from` and the name of the field in "
        "records: `a_b: {type: string, from: 'a.b'}`.",
    ),
    "bad-expression": Condition(
        "An SQL expression in the configuration, or an expectation, is not a single scalar expression over the "
        "model's columns; or an expectation is not boolean, or has the same result for every row.",
        "Correct it as the message says. Subqueries, aggregates and window functions are not allowed.",
    ),
    "bad-fixture": Condition(
        "A row or a record of a unit test does not fit the contract of its stream or the columns of its table, or a "
        "fixture file cannot be read as rows.",
        "Correct the value at the place. Write a record that is meant to be bad as its raw value, a text in quotes.",
    ),
    "bad-interval": Condition(
        "A value is not an interval of fixed length.",
        "Write a number and a unit, or several: `30 seconds`, `10 minutes`, `1 hour 30 minutes`.",
    ),
    "bad-name": Condition(
        "The name of a project, model, stream, namespace or connection is not a plain identifier.",
        "Use ASCII letters, digits and `_`; the first character is not a digit.",
    ),
    "bad-order": Condition(
        "An entry of `order_by` is not a column with an optional direction, or the `sort_order` of a rewrite is not "
        "a list of terms.",
        "Write a column, then `desc` and `nulls first` or `nulls last` as needed; a `zorder(…)` must be the only "
        "term.",
    ),
    "bad-output-dir": Condition(
        "`lakesql compile --output-dir` would overwrite a file that lakesql did not write, or write among the "
        "models; or `lakesql docs --output` names a folder with other files than a site.",
        "Name a folder for compiled files only, such as `compiled`, or for the site only.",
    ),
    "bad-partition": Condition(
        "An entry of `partition_by` is not one of Iceberg's partition transforms.",
        "Write a column, `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(n, c)` or `truncate(n, c)`.",
    ),
    "bad-profile-template": Condition(
        "A value in profiles.yml uses Jinja that is not supported there.",
        "Use only `env_var('NAME')` or `env_var('NAME', 'default')`.",
    ),
    "bad-selector": Condition(
        "A word of `--select` or `--exclude` is not valid in the selector grammar, and cannot select anything.",
        "Correct it as the message says. Methods: `config.…:`, `file:`, `fqn:`, `path:`, `resource_type:`, `result:`, "
        "`selector:`, `state:`, `stream:`, `tag:`, `test_name:`, `test_type:`. Operators: `+`, `@`, a comma, a blank.",
    ),
    "bad-start": Condition(
        "`start` of a stream is neither `earliest` nor `latest` nor a time, or is a time in the future of a stream "
        "that is read from topics.",
        "Write `earliest`, `latest`, or a past ISO 8601 time, such as `2026-01-31T00:00:00Z`.",
    ),
    "bad-tool-call": Condition(
        "An assistant called a tool of `lakesql mcp` that does not exist, or with arguments that it does not accept.",
        "List the server's tools, which shows the arguments of each.",
    ),
    "bad-topic": Condition(
        "A stream's topic has a name that Kafka does not allow.",
        "Correct the name; several topics are `topics: [a, b]` or `pattern: '…'`.",
    ),
    "bad-size": Condition(
        "A value is not a size.",
        "Write a number and a unit, as in '256 MB' or '1.5 GB': B, KB, MB, GB or TB, of 1024 each.",
    ),
    "bad-source": Condition(
        "A file of the project's `sources/` cannot be loaded, has no source class or several of them, or its code "
        "fails.",
        "Correct the file as docs/own-sources.md describes.",
    ),
    "bad-trigger": Condition(
        "`trigger` is neither `available_now` nor an interval, nor `on change` in a mode over tables.",
        "Write `available_now`, or an interval such as `30 seconds`.",
    ),
    "bad-vars": Condition(
        "The value of `--vars` is not a mapping in YAML or JSON, or sets a variable that nothing in the project "
        "reads.",
        "Write YAML or JSON, with a blank after each colon and with names that a `var('…')` reads: `--vars "
        "'{big_order: 100}'`.",
    ),
    "batch-failed": Condition(
        "A batch failed for a reason outside the model, such as Spark, the storage or the catalog.",
        "Read the message and `logs/`, then run again, which repeats the batch.",
    ),
    "batch-published": Condition(
        "The batch that a run was about to publish is already in the table, because another runner writes the same "
        "model.",
        "Run a model in one place at a time: let the other runner continue, or stop it and start this run again.",
    ),
    "blunt-deletion": Condition(
        "A warning: an option of `remove_orphan_files` makes two storages count as one, or deletes files whose name "
        "has another scheme or authority.",
        "Check with `dry_run` which files would be deleted, or leave the option out.",
    ),
    "catalog-not-found": Condition(
        "The catalog's server answers, but does not know the warehouse or the database that the target names.",
        "Create it, or correct `uri` and `warehouse` of the target's `catalog`; `lakesql debug` checks it.",
    ),
    "catalog-options": Condition(
        "Spark cannot open the target's catalog with the keys of its block, or interprets one of them differently "
        "from pyiceberg.",
        "Correct the key, or its value, in the target's `catalog` in profiles.yml.",
    ),
    "catalog-not-atomic": Condition(
        "A REST catalog does not support commits of several tables in one transaction, which `consistent=True` needs.",
        "Leave `consistent` out, or keep the tables in a catalog with `transactions/commit`, or in one of type `sql`.",
    ),
    "catalog-refused": Condition(
        "The catalog's server refuses the login, or a request that the login is not authorized for.",
        "Correct `credential`, `token` or user and password in the target's `catalog`, or grant the rights; `lakesql "
        "debug` checks it.",
    ),
    "catalog-unreachable": Condition(
        "The target's catalog did not respond, or responded with an error of its own.",
        "Start the catalog, or correct the target's `catalog` in profiles.yml; `lakesql debug` checks it.",
    ),
    "catalog-uri": Condition(
        "The `uri` of a catalog of type `sql` names neither SQLite nor PostgreSQL.",
        "Write `sqlite:///path/to/catalog.db` or `postgresql://user@host:5432/database`, or use another type.",
    ),
    "cdc-keys": Condition(
        "The `keys` of a model that mirrors a change feed are not the stream's `key`: a column of it is missing, or "
        "there is another one, such as an expression, a constant or a field of `_record`.",
        "Select the columns of the stream's `key` unchanged, apart from their names, and list them in `keys`.",
    ),
    "cdc-stateful": Condition(
        "A model in mode `cdc` or `scd2` has an aggregate, a DISTINCT or a join of streams.",
        "Remove it from this model. Aggregate or join the table in another model, in mode `materialized_view`, by "
        "`ref('…')`.",
    ),
    "cdc-stream": Condition(
        "A model in mode `cdc` does not read exactly one stream, or its stream is not a change feed.",
        "Read one stream with `envelope: debezium`, `debezium_flat` or `dms`.",
    ),
    "certificate-untrusted": Condition(
        "The certificate of a broker or a schema registry is not trusted, or the server does not trust the client's.",
        "Set `ssl.truststore.location` (or `ssl.truststore.certificates`) in the connection's options to the "
        "authority of the broker, and `ssl.keystore.*` if the broker requires a client certificate. For a registry, "
        "set `ca`, `certificate` and `certificate_key`.",
    ),
    "checkpoint-behind": Condition(
        "A table holds batches that its checkpoint does not have: an older copy of the checkpoint was restored, or "
        "files were deleted.",
        "Create a checkpoint that continues where the table stands: `lakesql rewind MODEL`.",
    ),
    "checkpoint-foreign": Condition(
        "The checkpoint did not write the newest batch of the table: it was copied, or restored from elsewhere.",
        "Create a checkpoint that continues where the table stands: `lakesql rewind MODEL`.",
    ),
    "checkpoint-inconsistent": Condition(
        "Files of a checkpoint are missing or unreadable, or contradict each other or the table.",
        "Create a checkpoint that continues where the table stands: `lakesql rewind MODEL`.",
    ),
    "checkpoint-lost": Condition(
        "A checkpoint is gone, and the ledger cannot replace it: it held the list of plain files that were read, or "
        "the state of the model.",
        "Restore it from a copy, or choose with `lakesql rewind` what to read again, as the message describes.",
    ),
    "checkpoints-unwritable": Condition(
        "The target's folder or bucket of checkpoints is not writable.",
        "Correct `checkpoints` in profiles.yml, the permissions, or for S3 the catalog's `s3.` keys.",
    ),
    "client-option": Condition(
        "A stream or a model has an option of a connection's client.",
        "Move it to the connection in profiles.yml, where options of its client (SASL, SSL, …) are set.",
    ),
    "clock-not-stopped": Condition(
        "A unit test sets `now`, and its model, which runs on Spark, reads the current time in a form that a test "
        "cannot replace: without brackets, or by `unix_timestamp()`.",
        "Write `current_timestamp()` or `current_date()`, with the brackets.",
    ),
    "column-list": Condition(
        "A table alias or a common table expression renames a stream's columns in a list: `FROM orders AS o (a, b)`.",
        "Rename the columns in the SELECT, with `AS`.",
    ),
    "column-required": Condition(
        "A model lacks a column that its table requires: the column is NOT NULL there, or the table is partitioned "
        "by it.",
        "Keep the column in the SELECT, or alter the table before the next run.",
    ),
    "columns-guessed": Condition(
        "A stream declares no columns, and the events of its recording carry no schema, so columns are inferred from "
        "the values. A NULL is read as string, and every number as bigint or double.",
        "Declare the stream's `columns` before the model reads anything but a recording.",
    ),
    "columns-unknown": Condition(
        "An option needs the names of all columns, and a star in the SELECT stands for the columns of a table that "
        "only Spark knows.",
        "Name the columns in the SELECT in place of the star.",
    ),
    "commit-conflict": Condition(
        "Another writer changed the table while a batch was written, or changed a table that the model reads; or "
        "another runner planned a batch in the same checkpoint. The batch is retried.",
        "If it recurs, let the other writers commit less often, at other times, or to another table.",
    ),
    "commit-unknown": Condition(
        "A catalog did not confirm whether a commit was made. The ledger is checked for the batch, which is then "
        "retried.",
        "If it recurs, check the catalog's log and `logs/`.",
    ),
    "config-misplaced": Condition(
        "`config(...)` is inside a block, a macro or an expression.",
        "Write it once, as a statement of its own, at the top of the model: `{{ config(...) }}`.",
    ),
    "config-not-literal": Condition(
        "`config(...)` holds something other than literals, but it is read before the template is rendered.",
        "Write the value itself; set values that differ by folder in `pyproject.toml`.",
    ),
    "connection-unreachable": Condition(
        "The address of a connection cannot be reached: its folder does not exist, or its broker does not respond.",
        "Correct the connection in profiles.yml, or start the service that it names.",
    ),
    "contract-behind": Condition(
        "Records of a stream whose contract is a file in streams/schemas use a newer schema with other fields. A "
        "field that is added or widened is followed automatically: the batch is written again. For another change no "
        "column can hold the field's types in both schemas.",
        "Declare the `columns` of the stream; or run `lakesql schema pull` and set the column's type in the SELECT. "
        "Nothing of the batch was written.",
    ),
    "contradictory-expectations": Condition(
        "Two expectations of a model have the same name, have the same condition but another `on_fail`, or together "
        "allow no value of a column.",
        "Remove one of them, or give it another name.",
    ),
    "contradictory-options": Condition(
        "Two options of a model exclude each other, or one removes what another needs.",
        "Remove one of them, or change it as the message says.",
    ),
    "cycle": Condition(
        "Models read one another in a cycle, so none of them can run first.",
        "Break the cycle: let one of them read a stream, or a model outside the cycle.",
    ),
    "data-lost": Condition(
        "Records that a model has not read yet are gone from their topic.",
        "Restore the records, or continue without them: `lakesql run --select MODEL --accept-data-loss`.",
    ),
    "defer-catalog": Condition(
        "The table that `--defer` would read is in a catalog that is not the target's.",
        "Use a target with that catalog, or also run the model of the joined table: add it to `--select`.",
    ),
    "defer-missing": Condition(
        "A model is joined whose table exists neither in this target nor in that of `--state`.",
        "Run that model: add it to `--select`; or use the state of a target in which it has run.",
    ),
    "defer-stream": Condition(
        "A selected model streams the table of a model that has no table in this target. `--defer` applies to `ref` "
        "only, as a position in a stream belongs to one table.",
        "Also run that model here: add it to `--select`; or read its table with `ref`.",
    ),
    "distinct-aggregate": Condition(
        "An aggregate over a stream counts or sums distinct values, which Spark does not support in streaming.",
        "Write `approx_count_distinct(x)`; or `size(collect_set(x))`, whose state grows with the values.",
    ),
    "duplicate-column": Condition(
        "A model or a stream has two columns with the same name, ignoring case.",
        "Rename one of them with `AS` in the SELECT; in a stream, remove one.",
    ),
    "duplicate-config": Condition(
        "A model has two `config(...)` calls, or sets one option twice.",
        "Keep one of the two.",
    ),
    "duplicate-key": Condition(
        "A column is listed twice in `keys` or in `sequence_by`.",
        "List each column once.",
    ),
    "duplicate-macro": Condition(
        "Two macros have the same name.",
        "Rename one of them.",
    ),
    "duplicate-name": Condition(
        "Two streams, two models, two seeds, a model and a seed, or two descriptions have the same name.",
        "Rename one of them.",
    ),
    "duplicate-procedure": Condition(
        "Two maintenance models call the same procedure for the same table.",
        "Put the statements into one of them, or remove one.",
    ),
    "duplicate-table": Condition(
        "Two models would write the same table, or one would write the dead-letter table of the other.",
        "Give one of them another `table` or `namespace`.",
    ),
    "env-var-missing": Condition(
        "profiles.yml reads an environment variable that is not set.",
        "Set it, or give `env_var` a default.",
    ),
    "envelope-missing": Condition(
        "A SELECT uses `_change`, which only streams of change feeds have.",
        "Set `envelope: debezium`, `debezium_flat` or `dms` in the stream, or remove `_change`.",
    ),
    "extra-missing": Condition(
        "A kind of catalog needs a Python library that is not installed.",
        "Install lakesql with the extra that the message names.",
    ),
    "executor-lost": Condition(
        "An executor ended during a batch and its rows were lost, or Spark gave up on a task after several executors "
        "ended. The batch is retried.",
        "If it recurs, check the cluster's logs. Executors are often killed for lack of memory.",
    ),
    "executor-python": Condition(
        "Values in Protobuf are read by Python on the executors, where Python is missing, has another version than "
        "on the driver, or lacks ptars, protobuf or pyarrow.",
        "Install the driver's version of Python there, with `pip install ptars protobuf pyarrow`, and set the "
        "variable `PYSPARK_PYTHON` to it where `lakesql` is started "
        "([clusters.md](clusters.md#python-on-the-executors)).",
    ),
    "expectation-failed": Condition(
        "Rows of a batch fail an expectation with `on_fail: stop`. As the reason of a dead letter: its row fails an "
        "expectation with `on_fail: dead_letter`, which `detail` names.",
        "Correct the model, the expectation or the source, and run again, which repeats the batch. `lakesql replay` "
        "reads dead letters again and writes those that now pass.",
    ),
    "expectation-untraceable": Condition(
        "An expectation has `on_fail: dead_letter`, but a row of the model is not made of one record that could "
        "become a dead letter and be read again.",
        "Set `on_fail: stop` or `on_fail: warn`.",
    ),
    "expression-failed": Condition(
        "An expression of the SELECT failed on a value, for example in a cast, by an overflow or a division by zero.",
        "Correct the expression, or use `try_cast`, `try_divide` and the like, which give NULL.",
    ),
    "failures-not-stored": Condition(
        "The failing rows of a data test with `store_failures` cannot be written to their table.",
        "Make sure that the catalog accepts new tables, and that each column of the SELECT has a type and a unique "
        "name.",
    ),
    "feed-changed": Condition(
        "The schema in the events of a stream that declares no columns has another column, or another type, than "
        "before. A column that is added or widened is followed automatically: the batch is written again. Or changes "
        "lack a column that the stream declares, and the model has on_schema_change='fail'.",
        "If no column can hold both types, or the model has on_schema_change='fail', set the column in the stream's "
        "`columns` or change on_schema_change, and run again. Nothing of the batch was written.",
    ),
    "file-name": Condition(
        "A file or folder has a name that Hadoop cannot list, such as one with a colon, so nothing in its folder can "
        "be read.",
        "Rename it, or move it out of the folder, and run again. Nothing of the batch was written.",
    ),
    "file-too-large": Condition(
        "A file of the project is larger than is allowed for models, macros and properties files, or a seed's file "
        "is larger than `max_size` in [tool.lakesql.seeds].",
        "Shorten it, or move it out of the project's folders; large data belongs in a table.",
    ),
    "file-unreadable": Condition(
        "A file of a stream cannot be read: it is truncated, is not in the stream's format, has other types than the "
        "contract, or is not accessible.",
        "Repair, replace or remove the file, and run again. Nothing of the batch was written. With `ignore_corrupt: "
        "dead_letter`, such files become dead letters.",
    ),
    "filtered-groups": Condition(
        "In mode `upsert` a SELECT filters the groups of an aggregate by values that can change (HAVING, or a WHERE "
        "over it). The row of a group that no longer passes the filter would stay in the table.",
        "Remove the filter, select the compared value, and let `delete_when` delete rows: `delete_when='n >= 3'`.",
    ),
    "files-moved": Condition(
        "The files that a model read last are missing where its streams read now, while other files have their "
        "names: a folder was renamed or copied, or `path` of a stream was changed.",
        "State whether they are the same files: `lakesql rewind MODEL --files same`, or `--files new`.",
    ),
    "files-shared": Condition(
        "A stream moves or deletes its files after reading (`after`), and another model reads them too, which would "
        "miss the files that are gone before.",
        "Let one model read them, in mode `append`, and the others stream its table; or set `after: leave`.",
    ),
    "files-taken": Condition(
        "A table has rows of files that its stream has since archived or deleted (`after`); reading the stream again "
        "would silently leave out those rows.",
        "Move all of them back from the archive to their places with `mv`, which keeps their times, and repeat the "
        "command. `lakesql rebuild … --accept-data-loss` makes the table from the files that exist.",
    ),
    "forbidden-function": Condition(
        "A function has effects outside the query: it calls Java, reads files of the machine, or makes identifiers "
        "from text. Or its result depends on where a batch ends, or on which task reads a record.",
        "Remove it. A model reads data only by `stream('…')` and `ref('…')`; `_record` has the place of a record, "
        "such as `_record.topic`, its topic or file.",
    ),
    "format-needs-files": Condition(
        "A stream of format `parquet` or `orc` reads topics; or a stream of one of these formats or `avro` reads "
        "through a connection without files.",
        "Read files with `path:` through a connection of type `files`, or use a format of a topic's values: `json`, "
        "`csv`, `string`, `bytes`, or `avro` with `schema:`.",
    ),
    "git-missing": Condition(
        "A plan compares the project with a commit, but the project is not in a git repository, or git is not "
        "installed.",
        "Run it in a clone, or compare with a manifest.json: `lakesql plan --state DIR`.",
    ),
    "git-nested": Condition(
        "A folder of the project is a git repository of its own (a submodule, or a clone within a clone), so the "
        "commit to compare with does not contain its files.",
        "Compare with a manifest.json of the former version: `lakesql plan --state DIR`.",
    ),
    "git-ref": Condition(
        "The commit to compare the project with does not exist.",
        "Correct the name after --against, or fetch the commit.",
    ),
    "group-column": Condition(
        "A rule in `tables={'columns': …}` of a group changes a key column of a table, or drops all columns of a "
        "table.",
        "Name other columns in the rule, or give the table its own file, GROUP.TABLE.sql.",
    ),
    "group-empty": Condition(
        "A group has a route without known values: no file declares any, and the newest records of the topic have "
        "none, or were not read on this machine.",
        "Run the group, which reads the topic; or declare the values under `source_tables` in a file of streams/. If "
        "there are records, correct `route` to a column that they have.",
    ),
    "group-key": Condition(
        "A table of a feed has no primary key, which the mode of its group needs; or the stream of a route declares "
        "no key.",
        "Exclude the table (`tables={'exclude': ['public.log']}`), or give it its own file, GROUP.TABLE.sql, in mode "
        "`append`. With a route, set the keys in the group's file: `keys=['id']`.",
    ),
    "group-not-in-keys": Condition(
        "A model groups by a value that its `keys` do not determine, so several rows would have the same key.",
        "Select the value and add it to `keys`, use `any_value(…)` of it and do not group by it, or set "
        "`sequence_by`.",
    ),
    "group-build": Condition(
        "`lakesql build` tests each table before the models that read it, but the tables of a group with "
        "`consistent=True` are written together.",
        "Run the group, then test its tables: `lakesql run --select GROUP`, `lakesql test --select GROUP`.",
    ),
    "group-part": Condition(
        "A run selects only some models of a group with `consistent=True`.",
        "Run all of the group: `lakesql run --select GROUP`.",
    ),
    "group-route": Condition(
        "A group makes a table for each value of a column (`route`), which is not possible here: the column is not a "
        "string of the stream; the stream is a change feed, is not read from named topics, is not JSON, or starts at "
        "`latest`; or the mode, the names or the SELECT need something that such records do not have. Or the column "
        "has more than 1,000 values that no file declares, and none of these gets a table.",
        "Do what the message says, or write a model for each value, with a WHERE.",
    ),
    "group-stream": Condition(
        "The file of a group reads something that cannot be split into tables: no change feed, files, several "
        "streams, or a stream that declares columns.",
        "Read one change feed by `{{ stream('…') }}` that declares neither `columns` nor a `key`; or name the column "
        "of its records whose values are the tables: `tables={'route': 'event_type'}`.",
    ),
    "group-transactions": Condition(
        "A group has `consistent=True`, but its feed carries no transaction metadata.",
        "Remove `consistent`, or read Debezium's own format: `envelope: debezium`, in JSON, with "
        "`provide.transaction.metadata=true` in the connector.",
    ),
    "input-expired": Condition(
        "A view has `refresh='incremental'`, and the snapshot of a table from which its rows were computed is gone: "
        "it expired, or the table was rolled back or recreated.",
        "Compute all rows again: `lakesql rebuild MODEL`. Without `refresh`, a refresh does so automatically.",
    ),
    "input-not-iceberg": Condition(
        "A model over tables reads a table that is not an Iceberg table, and so has no snapshots.",
        "Read it by a stream into an Iceberg table, or read another table that is one.",
    ),
    "internal": Condition(
        "lakesql reached a state that should be impossible.",
        "This is a defect of lakesql: report it with the command's output under `--debug`.",
    ),
    "jar-checksum": Condition(
        "A jar in the cache, or one just downloaded, differs from the file that lakesql was built with.",
        "Run again, which downloads it again. If the error recurs, the repository or a proxy serves another file.",
    ),
    "jars-unreachable": Condition(
        "The additional jars for Spark could not be downloaded.",
        "Check the network and the proxy (`HTTPS_PROXY`), or name another Maven repository in `LAKESQL_MAVEN_URL`.",
    ),
    "java-ended": Condition(
        "The Java process of Spark ended during a run: it was killed, or ran out of memory.",
        "Run again. If it recurs, raise `spark.driver.memory` in the target's `spark.conf`. `logs/` has its last "
        "output; a status of 137 or -9 usually means that the system ran out of memory.",
    ),
    "java-missing": Condition(
        "Java is not installed on this machine, or cannot be started.",
        "In lakesql's folder: `pip install '.[java]'`. Or put Java 17 or 21 on `PATH` (a JRE is enough), or point "
        "`JAVA_HOME` at it.",
    ),
    "java-version": Condition(
        "The installed version of Java is not supported by Spark.",
        "In lakesql's folder: `pip install '.[java]'`. Or put Java 17 or 21 on `PATH` (a JRE is enough), or point "
        "`JAVA_HOME` at it.",
    ),
    "jvm-failed": Condition(
        "Java ended while Spark was starting.",
        "Read the file that the message names. Often `spark.conf` requests more memory than the machine has.",
    ),
    "kafka-option": Condition(
        "A Kafka connection has an option that lakesql sets itself, or that the Kafka client does not know or accept.",
        "Remove or correct it in the `options` of the connection in profiles.yml.",
    ),
    "join-range": Condition(
        "A join of streams bounds one side by a time that is not its watermark column. Spark computes the bound from "
        "that time but drops rows by the watermark column, so rows are lost that could still match.",
        "Add a range over the watermark columns of both streams, as long as their distance may be: `AND b.at <= a.at "
        "+ INTERVAL 1 DAY`. Or declare the watermark on the column in the condition.",
    ),
    "key-not-selected": Condition(
        "A column of `keys` is not among the columns of the SELECT.",
        "Add it to the SELECT, or correct its name.",
    ),
    "key-type": Condition(
        "A column in `keys` or `sequence_by` is a map or contains one, and Spark does not compare maps.",
        "Use a part of it, or its text: `to_json(m) AS key`.",
    ),
    "keys-changed": Condition(
        "The `keys` of a model differ from those by which the rows of its table were written.",
        "Restore the keys, or fill the table again: `lakesql rebuild MODEL`. A history of tables cannot be filled "
        "again: set another `table` for the model.",
    ),
    "keys-needed": Condition(
        "The rows of a view have no key: the SELECT has neither GROUP BY nor DISTINCT, and `keys` is not set.",
        "Set `keys` to the columns that identify its rows.",
    ),
    "keys-not-group": Condition(
        "The `keys` of a view differ from the columns of its GROUP BY, which identify its rows.",
        "Remove `keys`.",
    ),
    "late-files": Condition(
        "A stream with `ordered_by: name` has late files: listing all files found some with smaller names than the "
        "last one read. The stream has `late_files: refuse`, or is a change feed, whose changes are in the order of "
        "its files.",
        "Rename the files to larger names if they are to be read, or move them away; or set `late_files: read`, "
        "which reads them after the others. None of them was read.",
    ),
    "late-unknown": Condition(
        "A model has `late='dead_letter'`, but late records cannot be identified: its GROUP BY by event time is not "
        "in the outermost SELECT, or is a `session_window`, or the model joins streams.",
        "Group in the outermost SELECT, or set `late='count'`.",
    ),
    "lease-held": Condition(
        "Another runner holds the lease of the model.",
        "Let it run, or stop it with SIGTERM, which ends it after its batch. The lease of a runner that died expires "
        "within 15 seconds.",
    ),
    "lease-lost": Condition(
        "A runner did not renew its lease in time, and another one has taken over the model.",
        "Let the other runner continue: nothing was written twice.",
    ),
    "ledger-missing": Condition(
        "A checkpoint has written batches, but the table's history has no batch of the model.",
        "`lakesql rewind MODEL --to start` fills the table again; without `keys`, drop the table first if it holds "
        "rows. `--to checkpoint` continues with unread records.",
    ),
    "lineage-options": Condition(
        "The target's `lineage` has an unknown type, or its options do not determine a destination.",
        "Correct it as the message says; docs/lineage.md lists the options of each type.",
    ),
    "log-restarted": Condition(
        "All changes of a batch have positions in the database's log far below one that was read before, and the "
        "model orders its rows by position. The log has restarted, for example after a failover, a restore or on "
        "another server, and each change of a known row would be ignored.",
        "Let the connector take a new snapshot, let the stream start with it (`start`, or another topic), and run "
        "`lakesql rebuild MODEL`. To skip old changes that were sent again on purpose, run `lakesql rewind MODEL "
        "--to TIME`.",
    ),
    "macro-not-pure": Condition(
        "A macro uses one of the names that only models have (`config`, `stream`, `this` …); it may use only its "
        "arguments and other macros.",
        "Give the macro an argument, and pass the value from the model.",
    ),
    "maintenance-failed": Condition(
        "A maintenance-only run has failed for the tasks or tables that the message names.",
        "Follow the warning of each. Earlier commits are kept, and the next call does the rest.",
    ),
    "maintenance-off": Condition(
        "A maintenance model calls a procedure that is disabled for the table.",
        "Remove the statement, or remove `false` from the `maintenance` option of the model or its folder.",
    ),
    "many-statements": Condition(
        "The file of a model has more than one statement.",
        "Keep one SELECT, and put each other statement into its own file.",
    ),
    "metrics-port": Condition(
        "The address and port of `--metrics-address` and `--metrics-port` cannot be opened.",
        "Choose another port, or end the program that uses it.",
    ),
    "missing-fixture": Condition(
        "A unit test names a fixture file that does not exist.",
        "Correct the path, which is relative to the project's folder, or write the file.",
    ),
    "missing-option": Condition(
        "A required option is missing.",
        "Add the option; the docs page of its section lists the values.",
    ),
    "mixed-source-tables": Condition(
        "A topic has changes of two source tables, and the model reads them as one table: a row of one would replace "
        "the row of the other with the same key. The ledger has the table that was read first, so a second one is "
        "detected whenever it appears.",
        "Set the table in the stream, `source_table: public.orders`, and declare a stream and a model for each other "
        "table. If they are parts of one table with different keys, list all of them, or use a `*`: `source_table: "
        "'public.orders_*'`. In mode `upsert` the SELECT may use `_change.source_table` instead, in its WHERE or in "
        "a column of the keys. Each model of a group reads only its own table once the project has all tables of the "
        "topic: `lakesql schema pull STREAM`.",
    ),
    "mode-changed": Condition(
        "The mode of a model differs from that in which the rows of its table were written, or a mirror with soft "
        "deletes is changed to hard deletes.",
        "Restore the mode, or `apply_deletes`, or fill the table again: `lakesql rebuild MODEL`. A history of tables "
        "cannot be filled again: set another `table` for the model.",
    ),
    "nested-aggregate": Condition(
        "In mode `upsert` a SELECT aggregates the rows of another aggregate; or, in any mode, one side of a join of "
        "streams does, whose rows would be dropped as late.",
        "Store the rows of the inner aggregate in the table, and compute the outer one in queries of it. Finish "
        "groups by event time first, in a model in mode `append`, and aggregate its table here: "
        "`stream('its_name')`. In place of a join of windows of windows, collect what is compared, `max(n) AS most, "
        "collect_list(struct(k, n)) AS items`, and use `explode(filter(items, i -> i.n = most))` above it.",
    ),
    "name-not-called": Condition(
        "A function, a macro or `target` is named without a call or a field: `{{ stream }}`.",
        "Call it, `stream('orders')`, or read a field, `target.name`.",
    ),
    "new-table": Condition(
        "The feed has a new table that the project does not know, and its group has `new_tables: refuse`. The other "
        "tables were written.",
        "Add it to the project with `lakesql schema pull STREAM`, or exclude it with `tables={'exclude': […]}`.",
    ),
    "no-columns": Condition(
        "A stream declares no columns, and they cannot be taken from its records: none was read on this target, they "
        "carry no schema, or those of several topics differ. Or a model keeps state of its rows. Or the stream has a "
        "`registry`, and the project has no schema of its subject.",
        "Declare the stream's `columns`; or set `schemas.enable=true` in the connector, and run the model once, "
        "which reads the topic. With a registry, run `lakesql schema pull`.",
    ),
    "no-offset": Condition(
        "The result of a SELECT depends on `_record.offset` (its rows, a key or an order), but the records of a "
        "stream have no offset on this target: it is NULL, and a WHERE by it would silently keep no row.",
        "Order and filter by a column of the records, by `_record.timestamp`, or by a header with the position: "
        "`CAST(element_at(filter(_record.headers, h -> h.key = 'sequence_number'), 1).value AS string)`. A column "
        "that only copies `_record.offset` may stay.",
    ),
    "no-profiles": Condition(
        "No profiles.yml was found in the folders that lakesql searches.",
        "Write one beside pyproject.toml, or set its folder with `--profiles-dir`.",
    ),
    "no-project": Condition(
        "The directory has no project.",
        "Change to the project's folder, set it with `--project-dir`, or create a project with `lakesql init`.",
    ),
    "no-records": Condition(
        "A unit test gives no record to a model that reads streams, so no batch is written and nothing is tested.",
        "Add a batch with a record to a stream: `{stream: orders, batches: [[{order_id: 1}]]}`. Records that the "
        "SELECT filters out, or that are dead letters, make no rows either.",
    ),
    "no-ref": Condition(
        "A file of the tests' folder reads no table of a model, so it is not a data test.",
        "Read a model by `ref('…')`, or move SELECTs that are not tests elsewhere.",
    ),
    "no-settings": Condition(
        "pyproject.toml has no `[tool.lakesql]`.",
        'Add it, with at least `name = "…"`, or create a project with `lakesql init`.',
    ),
    "no-space": Condition(
        "The disk of the warehouse has less free space than the table needs, which a rebuild writes a second time.",
        "Free disk space first.",
    ),
    "no-stream": Condition(
        "A model in a mode that writes arriving records reads no stream, so nothing would update its table.",
        "Read a stream in FROM: `FROM {{ stream('…') }}`. To read only tables, use mode `materialized_view`, `table` "
        "or `scd2`.",
    ),
    "no-table": Condition(
        "A model in a mode over tables reads no table.",
        "Read the table of a model by `ref('…')`, or another table by its full name.",
    ),
    "no-usable-record": Condition(
        "Every record that a model read in a run is a dead letter, and its table is empty: the model does not match "
        "its records. This fails whatever `max_dead_letter_ratio` is.",
        "`lakesql show MODEL --dead-letters` shows the reason of each. Correct the stream or the model, and read "
        "them again: `lakesql replay MODEL`, or for a change feed `lakesql rebuild MODEL`.",
    ),
    "not-a-catalog": Condition(
        "The server at the catalog's `uri` is not an Iceberg REST catalog, but for example a web page.",
        "Correct `uri` of the target's `catalog`: it is the address before `/v1/config`.",
    ),
    "not-a-macro": Condition(
        "A file under the macro paths holds something other than macros and comments.",
        "Move it into a macro, or into a model.",
    ),
    "not-a-select": Condition(
        "A model's file is not one SELECT.",
        "Write one SELECT that reads a stream; lakesql generates the statements that create and write tables.",
    ),
    "no-samples": Condition(
        "`lakesql infer` found no samples for a contract: no file or record exists or can be read, the files are not "
        "on a disk of this machine, or values need schemas of a registry that was not given.",
        "Name a file, a folder, a pattern in quotes or a topic that has samples; for those of a target add "
        "`--connection`, and for values with schema ids `--registry`.",
    ),
    "not-a-topic": Condition(
        "`lakesql record` was given a stream that the target does not read from a broker or a queue.",
        "Use a target that does: `--target prod`.",
    ),
    "not-accessible": Condition(
        "The operating system refused to read or write a file of the project.",
        "Check the permissions of the file in the message, and the free space. `--target-path` and `--log-path` set "
        "other folders for what lakesql writes beside the tables.",
    ),
    "never-begins": Condition(
        "A WHERE compares with the content of the model's own table. While the table is empty, the comparison is "
        "NULL or false for every row, so no row is ever written.",
        "Handle the empty table: `WHERE at > coalesce((SELECT max(at) FROM {{ this }}), TIMESTAMP '1970-01-01')`.",
    ),
    "not-grouped": Condition(
        "A SELECT with GROUP BY or an aggregate selects a column that is neither grouped nor aggregated.",
        "Add it to GROUP BY, or aggregate it: `any_value(c)`.",
    ),
    "not-incremental": Condition(
        "A view has `refresh='incremental'`, but which of its rows a change affects cannot be determined.",
        "Remove `refresh`, so that all rows are computed again after a change; or change what the message names.",
    ),
    "not-text": Condition(
        "A file of the project is not UTF-8.",
        "Save it as UTF-8.",
    ),
    "nothing-lost": Condition(
        "`--accept-data-loss` was given, but no record is lost.",
        "Run without the option.",
    ),
    "old-unreadable": Condition(
        "The version to compare the project with cannot be read by this version of lakesql.",
        "Compare with a later version: `lakesql plan --against REF`.",
    ),
    "order-over-stream": Condition(
        "ORDER BY, SORT BY, CLUSTER BY, LIMIT or OFFSET is applied to a stream, where it would affect one batch at a "
        "time.",
        "Remove it. `order_by` of `config(...)` orders the rows within the table's files.",
    ),
    "order-type": Condition(
        "A column in `order_by` is a struct, an array or a map, which Iceberg cannot sort by.",
        "Order by a field of it, selected as a column of its own.",
    ),
    "outer-join": Condition(
        "An outer, semi or anti join keeps rows of a table that no record of the stream has matched yet, or joins "
        "streams without a range of event time.",
        "Put the stream on the side that keeps all rows: `FROM stream LEFT JOIN table`.",
    ),
    "outside-project": Condition(
        "A path of a stream or of the settings is outside the project's folder, or the connection's.",
        "Use a relative path without `..`; the path of a connection, in profiles.yml, may be anywhere.",
    ),
    "parameter-marker": Condition(
        "The SQL has a parameter `?` or `:name`, for which there is no value.",
        "Use `var('…')` of the template.",
    ),
    "partition-lost": Condition(
        "A column by which the table is or was partitioned has been dropped by someone else: Iceberg can no longer "
        "merge into the table. lakesql itself never drops such a column.",
        "Create a new table: `lakesql drop MODEL`, then run the model. A later ALTER cannot restore the column.",
    ),
    "partition-name-taken": Condition(
        "A column of the SELECT has the name that Iceberg gives to a field of `partition_by`: `ts_day` beside "
        "`days(ts)`.",
        "Rename the column with `AS`.",
    ),
    "partition-type": Condition(
        "A transform of `partition_by` does not support the type of its column, such as `days(c)` of a string.",
        "Use another transform, or cast the column.",
    ),
    "path-in-from": Condition(
        "A FROM reads files by their path, such as ``parquet.`/data` ``.",
        "Declare a stream for the files, or write the table's full name in three parts.",
    ),
    "pivot-over-stream": Condition(
        "PIVOT is applied to a stream.",
        "Use an aggregate per column: `sum(x) FILTER (WHERE …)`.",
    ),
    "project-exists": Condition(
        "`lakesql init` would overwrite files that exist.",
        "Name another folder, or move the files that the message lists.",
    ),
    "queue-forbidden": Condition(
        "The connection's user has no permission for the queue of a stream's `notifications`.",
        "Allow `sqs:GetQueueUrl`, `sqs:GetQueueAttributes`, `sqs:ReceiveMessage` and `sqs:DeleteMessage`.",
    ),
    "recording-exists": Condition(
        "`lakesql record` would write into the folder of an existing recording.",
        "Replace it with `--replace`, or write elsewhere with `--output`.",
    ),
    "recursive-cte": Condition(
        "A common table expression is recursive.",
        "Write it as a join.",
    ),
    "redundant-partition": Condition(
        "`partition_by` uses a column twice: with two of years, months, days and hours, or twice with one transform.",
        "Keep the one by which queries filter; for times, the finer one.",
    ),
    "reference-not-literal": Condition(
        "The argument of `stream`, `ref` or `var` is not a single string literal, so dependencies cannot be read "
        "from the file.",
        "Write the name as a literal: `stream('orders')`.",
    ),
    "removed-option": Condition(
        "A model or a folder's defaults set an option that this version no longer has.",
        "Remove it.",
    ),
    "rename-impossible": Condition(
        "`lakesql rename` cannot rename what a model has: nothing has the old name, the new name already has a table "
        "or a checkpoint, a rebuild is unfinished, or the catalog cannot rename tables.",
        "Do what the message says, then run the command again. Nothing was changed.",
    ),
    "rename-under-way": Condition(
        "A `lakesql rename` of the model was interrupted, or is still running: table, ledger and checkpoint may have "
        "different names.",
        "Run the same command again, which continues the rename.",
    ),
    "replay-impossible": Condition(
        "The dead letters of a model cannot be read again: the model keeps state, their order relative to the rows "
        "of its table is unknown, or they lack a part of the record that the model reads.",
        "Do what the message says; `lakesql rebuild MODEL` reads all records again.",
    ),
    "reserved-column": Condition(
        "A column or alias has a name reserved by lakesql: `_record`, `_change`, or one that begins with "
        "`_lakesql_`. Or a column of a table has a name reserved by Iceberg or Spark's MERGE, ignoring case: "
        "`_file`, `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id`, `_last_updated_sequence_number`, "
        "`_change_type`, `_change_ordinal`, `_commit_snapshot_id`, `__row_operation` and the like.",
        "Use another name, as in `_record.offset AS source_offset`. `_record` has the position of a record.",
    ),
    "reserved-name": Condition(
        "A template assigns one of the names that lakesql provides to templates.",
        "Use another name.",
    ),
    "random-key": Condition(
        "A key of a view has a different value each time that it is computed.",
        "Use a deterministic key.",
    ),
    "rebuild-impossible": Condition(
        "A table cannot be rebuilt: its stream starts at `latest`, or has no times to start at; or a table of a mode "
        "that merges would lose a column by which it is or was partitioned.",
        "Set another value for `--from`, or keep the column.",
    ),
    "protobuf-schema": Condition(
        "The Protobuf schema of a stream is invalid, its message or a column of the contract is in none of its "
        "schemas, or a field has a type that no column can hold.",
        "Correct `message`, the file, or the contract.",
    ),
    "rebuild-outdated": Condition(
        "The table that a rebuild fills cannot replace the model's: it was started for another version of the model, "
        "the live table was altered meanwhile, or it was not made by a rebuild.",
        "Remove it with `lakesql rebuild MODEL --abandon`, and start again.",
    ),
    "rebuild-under-way": Condition(
        "Another process is rebuilding the model, or its rebuild was stopped.",
        "Wait until it has finished. To continue a rebuild that was stopped or has failed: `lakesql rebuild MODEL`.",
    ),
    "registry-options": Condition(
        "The options of a schema registry contradict each other, or its client does not accept them.",
        "Set either `url` or `path`; either `user` and `password` or `token`; and in `options` only what has no key "
        "of its own.",
    ),
    "registry-stateful": Condition(
        "A model that keeps state (an aggregate, a join of streams, a DISTINCT) reads a stream with a `registry`, "
        "but its query cannot adopt a new schema while it runs.",
        "Read the stream in a model in mode `append`, and let the model that keeps state read its table by "
        "`stream('landed')`.",
    ),
    "registry-unreachable": Condition(
        "A schema registry does not respond, or the folder in its place does not exist. The batch is retried.",
        "Check that it runs, and correct `url`, `path` or `ca` of the connection.",
    ),
    "results-missing": Condition(
        "There is no run_results.json for `result:`, nor test_results.json for data tests: no command has written "
        "results to that folder.",
        "Run a command first, or set `--state` to a folder with results, such as a copy of target/.",
    ),
    "results-unreadable": Condition(
        "The run_results.json or test_results.json for `result:` was not written by lakesql.",
        "Set `--state` to a folder that `lakesql run`, `test` or `build` has written.",
    ),
    "retention-property": Condition(
        "An Iceberg table property sets how long snapshots are kept, for which lakesql's expiry has an option.",
        "Use `older_than` or `retain_last` of `expire_snapshots`, or `'expire_snapshots': False` if another engine "
        "expires them.",
    ),
    "rewind-duplicates": Condition(
        "`lakesql rewind`, to the start or to a time, would make a model without `keys` read records again whose "
        "rows are in its table: they would be duplicates. Or a stream has another name, and it is unknown whether "
        "its topics are those read before.",
        "Drop the table first, delete the rows of those records, or accept duplicates with `--allow-duplicates`. Or "
        "restore the name of the stream.",
    ),
    "rewind-impossible": Condition(
        "A model cannot continue from the position given to `lakesql rewind`.",
        "Choose another position: `lakesql rewind --help` lists them.",
    ),
    "sample-over-stream": Condition(
        "TABLESAMPLE is applied to a stream, where a repeated batch would select other rows.",
        "Filter by a hash of the key: `WHERE hash(id) % 10 = 0`.",
    ),
    "schema-change": Condition(
        "The columns or partitions of a model and of its table differ, and the model's `on_schema_change` does not "
        "change them: `fail`; `ignore`, if an option names the column; `sync_all_columns`, if columns of a table "
        "that lakesql did not create would be dropped. Or a history without `track_columns` has lost a column, so "
        "that versions that differ only in it would become equal.",
        "Change the SELECT, alter the table, or set `on_schema_change` to `append_new_columns` or "
        "`sync_all_columns`. For a history, set `track_columns`.",
    ),
    "script-transform": Condition(
        "`SELECT TRANSFORM … USING` runs a program.",
        "Write it in SQL.",
    ),
    "secret-in-vars": Condition(
        "`--vars` has the value of a `LAKESQL_SECRET_…` variable, which would be written to compiled SQL.",
        "Keep secrets in profiles.yml, by `env_var`.",
    ),
    "secret-on-command-line": Condition(
        "A Java option contains a secret, which everybody on the machine can read in the list of processes.",
        "Put it into a file that the option names, or into a setting of `spark.conf` that is not a Java option.",
    ),
    "seed-columns": Condition(
        "The header of a seed's file and its contract have different columns.",
        "Correct the header or the contract: both must have the same columns, in any order.",
    ),
    "seed-not-filled": Condition(
        "The table of a seed cannot be written: the catalog or the storage refuses it, or the table was altered by "
        "someone else.",
        "Do what the message says, and run `lakesql seed` again. The table is unchanged. If the catalog does not "
        "accept other columns, as that of Hive or Nessie, recreate the table: `lakesql drop SEED`, `lakesql seed`.",
    ),
    "seed-syntax": Condition(
        "The file of a seed is not a valid CSV table: a record has more or fewer values than the header, a quote is "
        "not closed, or the header is missing.",
        "Correct the record where the message points. Put a value with the delimiter, a quote or a line break into "
        "double quotes, and double each quote within it.",
    ),
    "seed-value": Condition(
        "A value in the file of a seed does not have its column's type, or a field of a required column is empty.",
        "Correct the value where the message points, or the type in the contract.",
    ),
    "selector-cycle": Condition(
        "A selector of selectors.yml refers to itself, directly or through others.",
        "Define one of them without the other.",
    ),
    "sequence-not-selected": Condition(
        "A model over a change feed has an entry in `sequence_by` that its SELECT does not have as an unchanged "
        "column of the feed.",
        "Add it to the SELECT, as `_change.position AS position` or as a plain column of the stream: the table "
        "stores it to compare later changes.",
    ),
    "session-in-upsert": Condition(
        "In mode `upsert` a SELECT groups by session_window: a session that grows would become a row with another "
        "key, and Spark does not support sessions in this mode.",
        "Use mode `append` and a stream with a watermark: the row of a session is written when it can no longer grow.",
    ),
    "session-without-key": Condition(
        "A SELECT over streams groups by session_window only, but Spark supports only sessions of a key.",
        "Group by a key too: `GROUP BY user_id, session_window(at, '30 minutes')`. For the sessions of all rows "
        "together, select a constant column, `'all' AS of`, in a subquery over the stream, and group by it.",
    ),
    "set-operation": Condition(
        "INTERSECT, EXCEPT or MINUS needs all rows of a stream, which is never complete.",
        "Use a LEFT SEMI JOIN or LEFT ANTI JOIN with a table.",
    ),
    "shallow-clone": Condition(
        "A shallow clone lacks the commit to compare the project with.",
        "Fetch the others: `git fetch --unshallow`; in CI, check out with `fetch-depth: 0`.",
    ),
    "source-missing": Condition(
        "The `type` of a connection names a file of the project's `sources/` that does not exist.",
        "Correct the path, which is relative to the project's folder: `type: sources/redis.py`.",
    ),
    "spark-missing": Condition(
        "pyspark is not installed.",
        "In a checkout of lakesql, run `pip install '.[spark]'`.",
    ),
    "spark-open": Condition(
        "A command that needs Spark is called in a process with an open Spark session, such as a notebook. A process "
        "has only one Spark, and the command would use its catalogs in place of the target's.",
        "Call the command in a process of its own: in Python, `subprocess.run(['lakesql', 'run'])`.",
    ),
    "spark-option": Condition(
        "`spark.conf` of the target has a key that is set elsewhere in the target, that would hide written data from "
        "readers, that changes the meaning of a type, or that is not a Spark setting.",
        "Move or correct the key as the message says. `spark.hadoop.…` are settings of Hadoop.",
    ),
    "spark-refused": Condition(
        "Spark does not start with the settings of the target.",
        "Correct `spark` of the target in profiles.yml: its `master` or its `conf`.",
    ),
    "spark-unreachable": Condition(
        "The target's Spark master does not accept connections.",
        "Start it, or correct `master` of the target's `spark`; the message has the response of each of its "
        "addresses.",
    ),
    "sql-syntax": Condition(
        "The SQL of a model cannot be parsed, or Spark and lakesql would parse it differently.",
        "Correct it at the place that the message names.",
    ),
    "star-in-function": Condition(
        "A function has the argument `*` of a stream, which includes internal columns of lakesql if the model is in "
        "mode `upsert` or uses `_record`.",
        "Name the columns.",
    ),
    "star-with-record": Condition(
        "The SELECT uses `_record` or `_change`, and has a `*` of the stream where rows are compared: with DISTINCT, "
        "with GROUP BY ALL, or in a UNION. The star includes these columns, which differ in each record.",
        "Name the columns, or exclude these: `* EXCEPT (_record)`.",
    ),
    "state-changed": Condition(
        "The state that a model keeps between batches differs from that in its checkpoint.",
        "Fill the table again with `lakesql rebuild MODEL`; otherwise rows of groups that no longer exist would stay.",
    ),
    "state-missing": Condition(
        "The folder of --state has no manifest.json.",
        "Name a folder that `lakesql parse` has written, such as a copy of target/.",
    ),
    "state-outdated": Condition(
        "The manifest.json of --state was written by a version of lakesql that stored less in it, or by another tool.",
        "Write it again from that version of the project, with `lakesql parse` of this version of lakesql.",
    ),
    "storage-refused": Condition(
        "The tables' warehouse cannot be used: its bucket or folder does not exist, or access is denied.",
        "Correct `warehouse` or the `s3.` keys of the target's `catalog` in profiles.yml, or create the bucket.",
    ),
    "storage-unreachable": Condition(
        "The storage of tables or checkpoints does not respond, or failed during a run.",
        "Start it, or correct `s3.endpoint` and the other `s3.` keys of the target's `catalog` in profiles.yml.",
    ),
    "stream-exists": Condition(
        "`lakesql infer` would write the entry of a stream, or a file, that already exists.",
        "Print it with `--output -` and compare; `--force` replaces a file with only this stream. Or choose another "
        "`--name`.",
    ),
    "stream-in-expression": Condition(
        "A stream is read inside an expression (IN, EXISTS, a scalar subquery, LATERAL).",
        "Join it in FROM, or read the table of another model over the stream with `ref()`.",
    ),
    "stream-in-view": Condition(
        "A model in a mode over tables reads a stream, which would give only new records.",
        "Read the stream in a model of its own, in mode `append`, `upsert` or `cdc`, and its table by `ref('…')`.",
    ),
    "stream-of-keyed-model": Condition(
        "`stream('…')` names a model whose rows change, but this model keeps state of its changes or reads another "
        "stream too; or the rows of the named model have no keys.",
        "Log the changes in a model in mode `append` that reads nothing else, and stream its table; or join the "
        "table with `ref('…')`; or set `keys` of the named model.",
    ),
    "stream-empty": Condition(
        "With `--fail-if-empty`: a model has read nothing, because no file or topic matches, or no record exists.",
        "Correct the stream's `path`, `topic` or connection, or find out why no records arrive.",
    ),
    "no-views": Condition(
        "A model has mode `view`, but the target's catalog does not support views.",
        "Use mode `table` or `materialized_view`, whose rows are stored, or another catalog.",
    ),
    "stream-of-view": Condition(
        "`stream('…')` names a model of mode `view`, which has no changes to read.",
        "Read it with `ref('…')`, or give it mode `materialized_view`, whose changes can be read.",
    ),
    "expectation-of-view": Condition(
        "An expectation is set for a view, whose rows no run writes or checks.",
        "Write it as a data test, or store the rows: mode `materialized_view` or `table`.",
    ),
    "stream-of-seed": Condition(
        "`stream('…')` names a seed, whose rows are replaced as a whole.",
        "Join its table with `ref('…')`.",
    ),
    "stream-origin": Condition(
        "The origin of a stream is set twice, or does not match its connection.",
        "Keep one of `topic`, `topics`, `pattern`, `path`: topics or a pattern for `kafka` and `recorded`, topics for "
        "other brokers, a path for `files`.",
    ),
    "streams-changed": Condition(
        "A model reads other streams than its checkpoint was created for, the same ones in another order, or one "
        "whose origin has changed, such as from recorded files to Kafka.",
        "`lakesql rewind MODEL`: existing streams continue, as do topics that were read under another name of their "
        "stream; new streams start at their `start`. A stream with another origin is read from its start, or from a "
        "time: `--to start`, `--to TIME`.",
    ),
    "table-ahead": Condition(
        "The newest snapshot of a table is more than a minute ahead of this machine's clock, so Iceberg accepts no "
        "commit: the clock of the machine that wrote it is ahead, or this one's is behind.",
        "Correct the clocks. If the snapshot's time is wrong, wait until that time, or roll the table back to the "
        "snapshot before it, and follow the message of the next run.",
    ),
    "table-behind": Condition(
        "A table lacks batches that its checkpoint has written: it was rolled back.",
        "`lakesql rewind MODEL` writes them again; `--to checkpoint` skips them. For a stateful model use `--to "
        "start`; without `keys`, drop the table first.",
    ),
    "table-left-out": Condition(
        "The feed has a new table that the project does not know, and its group has `new_tables: ignore`.",
        "Add it to the project with `lakesql schema pull STREAM`, or exclude it explicitly with `tables={'exclude': "
        "[…]}`.",
    ),
    "table-missing": Condition(
        "A table that a command needs is not in the catalog.",
        "Run the model that writes it, or correct the name. The table of a seed is filled by `lakesql seed`.",
    ),
    "table-recreated": Condition(
        "The table is not the one that the checkpoint has written to: it was dropped, and possibly created again.",
        "`lakesql rewind MODEL --to start` fills it again; without `keys`, drop the table first if it holds rows. "
        "`--to checkpoint` continues with unread records.",
    ),
    "table-not-of-seed": Condition(
        "The catalog has a table with the name of a seed, which was not created by this seed of this project.",
        "Rename the seed, set another `namespace` for the target, or move or drop the table.",
    ),
    "table-of-another": Condition(
        "A model in mode `append` would start with a table whose rows another model has written: the model was "
        "renamed while its option `table` names the old table, or another project has the same table.",
        "After a rename, run `lakesql rename OLD NEW`, which keeps ledger and checkpoint. Otherwise use one of the "
        "commands in the message, which read the streams anyway.",
    ),
    "table-rebuilt": Condition(
        "During a run of a model, its table was rebuilt from another version of the model.",
        "Start the run again, which continues with the current version of the project.",
    ),
    "table-unfit": Condition(
        "A run found a table of a feed that cannot have a model in its group: it has no key, a column of an "
        "unsupported type, or the name of another table. The other tables were written.",
        "Do what the message says, or exclude the table with `tables={'exclude': […]}`.",
    ),
    "table-unreadable": Condition(
        "The catalog has a table whose metadata or data files cannot be read: they do not exist, are not accessible, "
        "or contain something that pyiceberg does not support, such as a column of type variant.",
        "Do what the message says. If the files were deleted by hand, drop the table.",
    ),
    "template-failed": Condition(
        "An expression of a template cannot be evaluated with its values, or its result is not SQL: a list, a "
        "mapping, or a comment (`--`) that would include the text after it.",
        "Correct the expression. The place is that in the model; the message names the macro.",
    ),
    "template-forbidden": Condition(
        "A template uses something that is not available: attributes of Python objects, imports, or unknown filters.",
        "Use a method, filter or test that the docs list, or a macro.",
    ),
    "template-syntax": Condition(
        "The file is not valid Jinja.",
        "Correct it where the message points.",
    ),
    "template-too-large": Condition(
        "A template exceeds a limit: its size, its steps, or the text or numbers that it makes.",
        "Generate less by the template; large data belongs in a table.",
    ),
    "test-failed": Condition(
        "Data tests or unit tests of a model fail in `lakesql build`, so the models that read it are not run.",
        "Check the failing rows that the command shows; correct the source, the model or the test.",
    ),
    "test-not-recorded": Condition(
        "`lakesql test --record` cannot make a unit test from the recorded records, or not for this model.",
        "Do what the message says: use another name, target or records, or write the test by hand.",
    ),
    "test-template": Condition(
        "A file of the tests' folder uses something that a data test does not have: a stream, or a table of its own.",
        "Read tables of models by `ref('…')`.",
    ),
    "test-unanswered": Condition(
        "The SELECT of a data test cannot be run: it is not valid for Spark, or Spark cannot be started.",
        "Correct it as the message says; its compiled SQL is in target/compiled.",
    ),
    "text-untraceable": Condition(
        "A stream has `invalid_text: dead_letter`, but a model that keeps state may convert bytes to text: its rows "
        "are made of many records, none of which can become the dead letter.",
        "Declare another stream for the same records, without `invalid_text`: such bytes are then replaced by U+FFFD "
        "and counted.",
    ),
    "toml-syntax": Condition(
        "pyproject.toml is not valid TOML.",
        "Correct it where the message points.",
    ),
    "this-missing": Condition(
        "A model reads its own table, `{{ this }}`, which does not exist yet, and the types of its columns are "
        "unknown.",
        "Cast the columns in the SELECT, so that the table can be created before it is read.",
    ),
    "too-many-dead-letters": Condition(
        "More records of a batch would be dead letters than `max_dead_letter_ratio` allows; nothing of it was written.",
        "Correct the records or the contract, or raise the ratio.",
    ),
    "too-many-deletes": Condition(
        "A batch would delete more of the table's rows than `max_delete_ratio` allows; nothing of it was written.",
        "Check whether the source really deleted these rows; if so, raise the ratio for one run.",
    ),
    "tool-ended": Condition(
        "The process that answers a call of a tool of `lakesql mcp` ended without an answer.",
        "Call the tool again; if it recurs, ask for less, or run the command of the same name in a terminal.",
    ),
    "tool-guard": Condition(
        "A read-only tool of `lakesql mcp` was about to write, start a program, open a connection, or read a file "
        "outside the project, because of a file of the project.",
        "If what the message names is intended, run the command of the same name in a terminal.",
    ),
    "tool-not-allowed": Condition(
        "An assistant called a tool of `lakesql mcp` that changes something, which the server does not allow.",
        "Have the server started with more rights: `lakesql mcp --allow run` lets an assistant run models, `--allow "
        "test` tests.",
    ),
    "tool-timeout": Condition(
        "A call of a tool of `lakesql mcp` took too long, and was ended.",
        "Ask for less, with `select` or a name; or start the server with a longer `--timeout`, or `--run-timeout`.",
    ),
    "topic-forbidden": Condition(
        "The connection's user has no permission to read a topic.",
        "Have READ and DESCRIBE granted on the topic, or use another user.",
    ),
    "topic-recreated": Condition(
        "A topic was deleted and created again since it was last read.",
        "`lakesql rewind MODEL` reads the new topic from its beginning. If the model keeps state, or its table has "
        "no batch yet, use `--to start`; without `keys`, drop the table first if it holds rows.",
    ),
    "transaction-incomplete": Condition(
        "A group with `consistent=True` has waited ten minutes for changes of a transaction, or for its end.",
        "Check that the connector runs. If the topics no longer have the missing changes, `lakesql run --select "
        "GROUP --accept-data-loss` writes what exists of such transactions.",
    ),
    "type-change": Condition(
        "A column of a model has another type than in the table, and Iceberg cannot change one into the other, or "
        "the model has on_schema_change='ignore'.",
        "Cast it in the SELECT to the table's type, or rename the new column.",
    ),
    "undefined-variable": Condition(
        "A template uses a name, an entry or a `var` that has no value.",
        "Correct the spelling, or set the variable in `[tool.lakesql.vars]` or with `--vars`.",
    ),
    "union-star": Condition(
        "The branches of a UNION ALL have the stream's own columns in different positions, because some use `*`.",
        "Name the columns in every branch, or begin every branch with the same number of columns before its `*`.",
    ),
    "union-without-stream": Condition(
        "A branch of a UNION reads no stream, so every batch would add its rows again.",
        "Read tables in a join, or in a model of their own.",
    ),
    "unknown-alias": Condition(
        "A name in the SELECT has a qualifier that is neither in its FROM nor a column.",
        "Use a name of FROM: for a table with an alias, only the alias.",
    ),
    "unknown-catalog-type": Condition(
        "The `type` of the target's catalog is not supported.",
        "Use a type that the message lists.",
    ),
    "truncate-refused": Condition(
        "The source of a mirror was truncated, and the model has `on_truncate='fail'`; or its stream reads several "
        "topics, only one of which has the truncate; or the truncate lacks the field of `_change` by which changes "
        "are ordered. Mode `scd2` never applies a truncate.",
        "If the rows are to be deleted, run once with `on_truncate='apply'`; otherwise fill the source again, and "
        "rebuild the model. Mirror each of several topics by its own stream and model. If truncates have no "
        "`_change.position`, remove it from `sequence_by`, and rebuild the model.",
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
        "Use `files`, `kafka`, `kinesis`, `mqtt`, `pulsar`, `rate`, `recorded`, `registry` or `sqs`, or a file of "
        "the project: `sources/NAME.py`.",
    ),
    "unknown-field": Condition(
        "A SELECT uses a field that a struct does not have.",
        "Correct the name, or add the field to the contract of the stream.",
    ),
    "unknown-folder": Condition(
        "`[tool.lakesql.models]` has defaults for a folder or a model that does not exist, or `[tool.lakesql.paths]` "
        "names a folder that does not exist.",
        "Correct the name, or remove the entry.",
    ),
    "unknown-function": Condition(
        "A SELECT calls a function that Spark does not have.",
        "Correct the name. Functions of other databases often have another name in Spark.",
    ),
    "unknown-mode": Condition(
        "`mode` is not one of lakesql's modes.",
        "Use a mode that the message lists.",
    ),
    "unknown-model": Condition(
        "A properties file describes a model that does not exist, or a command such as `lakesql show` is given one.",
        "Correct the name, or remove the entry.",
    ),
    "unknown-option": Condition(
        "A key is not an option at its place: of a mode, a stream, a connection or a target.",
        "Correct the spelling, or remove the key. Keys that start with `x-` are ignored, except among names that you "
        "choose (columns, connections).",
    ),
    "unknown-partition-field": Condition(
        "A maintenance task orders manifests by a name that is not a partition field of the table.",
        "Use the names of the table's partition fields, such as `at_day` for `days(at)`, or remove `sort_by`.",
    ),
    "unknown-partition-spec": Condition(
        "A maintenance task uses a partition spec that the table does not have.",
        "Use the id of an existing spec, or remove the option.",
    ),
    "unknown-profile": Condition(
        "profiles.yml has no profile of the project's name.",
        "Add it, or set `profile` in `[tool.lakesql]`.",
    ),
    "unknown-queue": Condition(
        "A queue in the `notifications` of a stream does not exist at the connection.",
        "Correct the name, the region or the account, or create the queue.",
    ),
    "unknown-ref": Condition(
        "`ref('…')` names no model.",
        "Correct the name.",
    ),
    "unknown-seed": Condition(
        "A properties file or a command names a seed that has no file.",
        "Correct the name, or write the rows to a .csv file of that name in seeds/.",
    ),
    "unknown-selector": Condition(
        "selectors.yml has no selector of this name.",
        "Correct the name, or define it.",
    ),
    "unknown-source-table": Condition(
        "The name of a table of a feed is neither declared in a file nor found by a run.",
        "Correct it. `lakesql schema pull STREAM` adds the tables of the feed to the project.",
    ),
    "unknown-stream": Condition(
        "`stream('…')` names neither a declared stream nor a model, or `lakesql record` is given a stream that is not "
        "declared.",
        "Correct the name, or declare the stream.",
    ),
    "unknown-table": Condition(
        "A FROM names something that is neither a stream of the model nor a common table expression.",
        "Write `{{ stream('…') }}` or `{{ ref('…') }}`, or the table's full name.",
    ),
    "unknown-target": Condition(
        "The profile has no output of this name.",
        "Correct `--target`, or add the output.",
    ),
    "unknown-test": Condition(
        "A properties file names a test that lakesql does not have.",
        "Use a test that [tests.md](tests.md) lists, or write a SELECT into tests/.",
    ),
    "unknown-subject": Condition(
        "A registry does not have the subject of a stream, or has no schema in the stream's format for it.",
        "Correct `subject` of the stream, or set it: the default is `<topic>-value`.",
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
        "An expression of the SELECT that would become a column of the table has no name.",
        "Give it a name with `AS`.",
    ),
    "upstream-expired": Condition(
        "A model would start to stream a table whose first snapshots have expired, so that rows would be missing: it "
        "is new, was rewound, or was changed to read this stream. Or the snapshot up to which it has read the table "
        "is gone.",
        "Rebuild the model that writes the table, or run once with `--accept-data-loss`. If the message says so, "
        "rebuild the model that reads it.",
    ),
    "upstream-rolled-back": Condition(
        "A table that a model streams was rolled back to before the snapshot up to which it was read.",
        "Rebuild the model that reads it, or set the table to that snapshot again.",
    ),
    "upstream-rebuilt": Condition(
        "A model streams the table of another model, which was rebuilt since it was last read.",
        "Rebuild this model too: `lakesql rebuild MODEL+` rebuilds a model and all models that read it.",
    ),
    "upsert-over-feed": Condition(
        "A model in mode `upsert` reads a change feed, but does not handle deletes.",
        "Use mode `cdc`. Or select `_change.op AS op` and set `delete_when=\"op = 'd'\"`, or ignore deletes: `WHERE "
        "_change.op <> 'd'`.",
    ),
    "upsert-over-join": Condition(
        "A model that updates rows, as in mode `upsert`, joins two streams, but Spark only appends rows of such "
        "joins.",
        "Write the join as a model in mode `append`, and read its table here: `stream('its_name')`.",
    ),
    "usage": Condition(
        "The command line is not valid.",
        "Read `lakesql --help`, or `--help` of the command.",
    ),
    "unread-file": Condition(
        "A file in a folder of the project would be ignored: its name ends in `.SQL` or `.YML`, it declares models "
        "or tests where no properties files are read, or it is a broken link.",
        "Rename it, move it to the folder of the models, or remove it.",
    ),
    "unsafe-folder": Condition(
        "A checkpoint, a lease, a log, or the files of a stream are in the folder of a table, or a table is in that "
        "of a checkpoint.",
        "Use a separate folder: `checkpoints: .lakesql/checkpoints` beside `warehouse: .lakesql/warehouse`.",
    ),
    "unsafe-maintenance": Condition(
        "Maintenance is configured to delete files that may still be needed.",
        "Set a longer time, or leave the option out: the defaults are safe.",
    ),
    "unsupported-spark": Condition(
        "This version of Spark or Iceberg lacks something that lakesql needs to write tables.",
        "Install the versions that lakesql supports: pip install 'lakesql[spark]'. A jar of `spark.jars` may also "
        "have another version.",
    ),
    "unstorable-type": Condition(
        "A column has a type that no table of this format version supports: an interval, a time, a variant, a void.",
        "Cast it, a variant to string. Tables support void with `properties={'format-version': '3'}`.",
    ),
    "variable-substitution": Condition(
        "`${…}` would be replaced by a setting or an environment variable before Spark parses the SQL.",
        "Use `var('…')` of the template; for the literal characters, write `concat('$', '{…}')`.",
    ),
    "view-keys-twice": Condition(
        "A view, or a history of tables, has two rows with the same key: its `keys` do not identify its rows.",
        "Add columns to `keys` until they do, or let the SELECT return one row per key.",
    ),
    "warehouse-elsewhere": Condition(
        "All tables of an embedded catalog are outside its warehouse: it was copied or moved. The catalog has "
        "absolute paths of the tables, so a run would write to those of the original.",
        "Move the project back, or set `warehouse` to the location of the tables. Or remove the catalog's file and "
        "the checkpoints, to start with empty tables.",
    ),
    "watermark-missing": Condition(
        "An aggregate whose rows are appended, as in mode `append`, is not grouped by the event time of a stream "
        "with a watermark.",
        "Declare `watermark:` on the stream and group by `window(its_column, …)`, or use mode `upsert`. For the "
        "table of a model that is read as a stream, declare `watermark:` in the properties of that model.",
    ),
    "window-in-join": Condition(
        "The condition of a join calls `window()`, `session_window()` or `window_time()`, which Spark supports only "
        "over one relation.",
        "Compare the time with the other side's window: `ON … AND b.at >= m.w.start AND b.at < m.w.end`.",
    ),
    "window-over-stream": Condition(
        "A window function over a stream would only see the rows of one batch.",
        "Use mode `upsert` with `sequence_by` for the newest row of a key, or group by `window(time, '…')`.",
    ),
    "wrong-credentials": Condition(
        "A broker, a schema registry or the issuer of its tokens rejects the connection's credentials.",
        "Correct `sasl.mechanism` and `sasl.jaas.config` in the connection's options. For a registry, correct `user` "
        "and `password`, `token`, or `bearer.auth.*` in its options.",
    ),
    "wrong-argument-count": Condition(
        "A SELECT calls a function with a wrong number of arguments.",
        "Use the number of arguments in the message.",
    ),
    "wrong-type": Condition(
        "A value does not have the type of the option, or of its column.",
        "Write a value of the type that the message names.",
    ),
    "wrong-value": Condition(
        "A value is not accepted by the option.",
        "Use an accepted value: the message or the docs list them.",
    ),
    "yaml-duplicate-key": Condition(
        "A YAML mapping has the same key twice.",
        "Remove one of them.",
    ),
    "yaml-syntax": Condition(
        "A file is not valid YAML.",
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
