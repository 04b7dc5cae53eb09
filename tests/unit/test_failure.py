"""What Spark and Java raise, and whether it may pass by itself."""

from __future__ import annotations

import re

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, StreamingQueryException

from lakesql.engine.spark.failure import explain, find_transient
from lakesql.errors import InternalError, Place, ProfileError, RunError, TransientError
from tests.cases import each_of
from tests.unit.test_select import build

JOB = (
    "An error occurred while calling o7.sql.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver)"
)


def trace(*causes: str) -> str:
    first, *others = causes
    at = "\n\tat org.apache.spark.sql.X.run(X.scala:1)\n\t... 12 more"
    return "".join(
        [
            f"An error occurred while calling o9.commit.\n: {first}{at}",
            *(f"\nCaused by: {cause}{at}" for cause in others),
        ]
    )


@each_of(
    ("text", "condition"),
    [
        (
            trace(
                "org.apache.iceberg.exceptions.CommitStateUnknownException: Cannot determine whether …"
            ),
            "commit-unknown",
        ),
        (
            trace(
                "org.apache.iceberg.exceptions.CommitStateUnknownException: Cannot determine whether …",
                "org.apache.iceberg.exceptions.ServiceFailureException: Server error: 503",
            ),
            "commit-unknown",
        ),
        (
            trace(
                "org.apache.spark.SparkConcurrentModificationException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent"
            ),
            "commit-conflict",
        ),
        (
            trace(
                "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit, changed"
            ),
            "commit-conflict",
        ),
        *(
            (
                trace(f"org.apache.iceberg.exceptions.ValidationException: {said}"),
                "commit-conflict",
            )
            for said in (
                "Cannot commit, missing data files: [/lake/a.parquet]",
                "Cannot commit, found new delete for replaced data file: GenericDataFile",
                "Cannot commit, found new position delete for replaced data file: GenericDataFile",
                "Found conflicting deleted files that can contain records matching true",
                "Found concurrently added DV for /lake/a.parquet",
            )
        ),
        (
            f"{JOB}: org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block …",
            "executor-lost",
        ),
        (
            f"{JOB}: ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: …",
            "executor-lost",
        ),
        (
            f"{JOB.partition('Task 0')[0]}ResultStage 8 (sql) has failed the maximum allowable number of times: 4. "
            "Most recent failure reason:\n"
            "org.apache.spark.shuffle.FetchFailedException: Connection refused\n\tat org.apache.spark.X.run(X.scala:1)",
            "executor-lost",
        ),
        (
            trace(
                "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient",
                "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in …",
            ),
            "connection-unreachable",
        ),
        (
            trace(
                "org.apache.spark.sql.catalyst.ExtendedAnalysisException: "
                "[INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS.COLUMNS_MISMATCH] Detected incompatible changes …"
            ),
            "commit-conflict",
        ),
        (
            trace(
                "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain …"
            ),
            "commit-conflict",
        ),
        (
            trace(
                "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out",
                "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
            ),
            "connection-unreachable",
        ),
        (
            f"{JOB}: java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 120000 ms",
            "connection-unreachable",
        ),
        (
            trace(
                "org.apache.iceberg.exceptions.RESTException: Error occurred while processing GET request"
            ),
            "catalog-unreachable",
        ),
        (
            trace(
                "org.apache.iceberg.jdbc.UncheckedSQLException: Failed to get table",
                "org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked (database is locked)",
            ),
            "catalog-unreachable",
        ),
        (
            trace(
                "org.postgresql.util.PSQLException: Connection to 127.0.0.1:5432 refused. Check that …"
            ),
            "catalog-unreachable",
        ),
        (
            trace(
                "org.postgresql.util.PSQLException: FATAL: the database system is starting up"
            ),
            "catalog-unreachable",
        ),
        *(
            (
                trace(
                    "org.apache.iceberg.jdbc.UncheckedSQLException: Failed to commit",
                    f"org.postgresql.util.PSQLException: {said}",
                ),
                "catalog-unreachable",
            )
            for said in (
                "FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute",
                'FATAL: too many connections for role "x"',
                "ERROR: cannot execute UPDATE in a read-only transaction",
                "ERROR: deadlock detected",
                "ERROR: could not serialize access due to concurrent update",
            )
        ),
        (
            trace(
                "java.io.UncheckedIOException: x",
                "java.net.ConnectException: Connection refused",
            ),
            "catalog-unreachable",
        ),
        (
            trace(
                "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: refused"
            ),
            "storage-unreachable",
        ),
        (
            trace(
                "software.amazon.awssdk.services.s3.model.S3Exception: Please reduce your request rate. (Service: S3, "
                "Status Code: 503, Request ID: x)"
            ),
            "storage-unreachable",
        ),
    ],
)
def test_each_transient_failure_has_its_condition(text: str, condition: str) -> None:
    kind, said = next(find_transient(Py4JError(text)))
    assert kind.condition == condition
    assert said and said in text


@each_of(
    "text",
    [
        "",
        trace(
            "org.apache.iceberg.exceptions.ValidationException: Cannot find column id"
        ),
        trace("org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized"),
        trace(
            "org.apache.iceberg.exceptions.NoSuchTableException: Table does not exist"
        ),
        trace(
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics"
        ),
        trace(
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host …"
        ),
        trace(
            "software.amazon.awssdk.core.exception.SdkClientException: Unable to load credentials from any of …"
        ),
        trace(
            "software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403)"
        ),
        trace(
            "software.amazon.awssdk.services.s3.model.NoSuchBucketException: null (Service: S3, Status Code: 404)"
        ),
        trace(
            "org.postgresql.util.PSQLException: ERROR: permission denied for table iceberg_tables"
        ),
        trace('org.postgresql.util.PSQLException: FATAL: role "x" does not exist'),
        trace(
            "org.postgresql.util.PSQLException: ERROR: value too long for type character varying(255)"
        ),
        trace(
            "org.sqlite.SQLiteException: [SQLITE_ERROR] SQL error (no such table: iceberg_tables)"
        ),
        trace("java.util.concurrent.TimeoutException: something of Spark's"),
        trace("java.lang.OutOfMemoryError: Java heap space"),
        f"{JOB}: org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.",
        # What a record or a query says is no exception of Java's.
        trace(
            "org.apache.spark.SparkRuntimeException: [CAST] The value 'java.net.ConnectException: x' cannot be cast"
        ),
        "The text org.apache.iceberg.exceptions.RESTException: stands in a sentence.",
    ],
)
def test_a_permanent_failure_is_not_found_transient(text: str) -> None:
    assert list(find_transient(Py4JError(text))) == []


def test_the_trace_that_pyspark_keeps_beside_the_message_is_read() -> None:
    error = Py4JError("Query q terminated with an exception")
    error._stackTrace = (
        "org.apache.spark.X: y\n\tat a.b\nCaused by: java.net.ConnectException: refused"  # type: ignore[attr-defined]
    )
    assert [kind.condition for kind, _ in find_transient(error)] == [
        "catalog-unreachable"
    ]


SELECT = build(
    "mode='append'",
    "SELECT id,\n  CAST(Status AS int) AS s FROM {{ stream('orders') }}",
)
AT_THE_CAST = "\n== SQL (line 3, position 3) ==\n  CAST(Status AS int) AS s\n  ^^^\n"


CAST = Place("models/m.sql", 3, 3)
STATE = "SQLSTATE: 42703"


@each_of(
    ("error", "condition", "place"),
    [
        *(
            (
                Py4JError(
                    f"{JOB}: [{name}] It does not fit. SQLSTATE: 22003{AT_THE_CAST}"
                ),
                "expression-failed",
                CAST,
            )
            for name in (
                "CAST_OVERFLOW",
                "NUMERIC_VALUE_OUT_OF_RANGE",
                "ARITHMETIC_OVERFLOW",
                "DIVIDE_BY_ZERO",
            )
        ),
        (
            Py4JError(
                f"{JOB}: [CAST_INVALID_INPUT] The value 'x' cannot be cast. SQLSTATE: 22018{AT_THE_CAST}"
            ),
            "expression-failed",
            Place("models/m.sql", 3, 3),
        ),
        (
            AnalysisException("[UNRESOLVED_COLUMN] a"),
            "analysis-failed",
            Place("models/m.sql"),
        ),
        (
            AnalysisException(
                f"[UNRESOLVED_COLUMN.X] a {STATE}; line 3 pos 2;\n'Project"
            ),
            "analysis-failed",
            CAST,
        ),
        (
            AnalysisException(f"[AMBIGUOUS_REFERENCE] a {STATE}; line 3 pos 2"),
            "analysis-failed",
            CAST,
        ),
        (
            ParseException(
                f"\n[PARSE_SYNTAX_ERROR] a {STATE} (line 3, pos 2)\n\n== SQL ==\n"
            ),
            "analysis-failed",
            CAST,
        ),
        (
            AnalysisException(
                f"[TABLE_OR_VIEW_NOT_FOUND] a\nb {STATE}; line 3 pos 2;\n+-"
            ),
            "analysis-failed",
            CAST,
        ),
        (
            AnalysisException(f"[FIELD_NOT_FOUND] a {STATE}"),
            "analysis-failed",
            Place("models/m.sql"),
        ),
        (
            AnalysisException(f"[OTHER] a {STATE}; line 9 pos 2"),
            "analysis-failed",
            Place("models/m.sql"),
        ),
        (
            Py4JError(
                trace(
                    "x.Y: z",
                    "java.lang.ClassNotFoundException: Class org.x.S3AFileSystem not found",
                )
            ),
            "storage-unreachable",
            Place("models/m.sql"),
        ),
        (
            Py4JError(
                trace(
                    "x.Y: z",
                    "software.amazon.awssdk.services.s3.model.NoSuchBucketException: null (404)",
                )
            ),
            "storage-unreachable",
            Place("models/m.sql"),
        ),
        (Py4JError("[OTHER] something"), "batch-failed", Place("models/m.sql")),
        (OSError("something"), "batch-failed", Place("models/m.sql")),
    ],
)
def test_each_permanent_failure_has_its_condition_and_place(
    error: Exception, condition: str, place: Place
) -> None:
    found = explain(error, SELECT)
    (problem,) = found.problems
    assert type(found) is RunError
    assert (problem.condition, problem.place) == (condition, place)
    assert problem.what and problem.fix


def test_an_exception_without_a_cause_is_named() -> None:
    (problem,) = explain(
        Py4JError(
            trace("org.apache.iceberg.exceptions.ValidationException: No such ref")
        ),
        SELECT,
    ).problems
    assert problem.what == "ValidationException: No such ref"


def test_a_transient_failure_is_explained_as_a_transient_error() -> None:
    found = explain(
        Py4JError(
            trace(
                "java.io.UncheckedIOException: x", "java.net.ConnectException: refused"
            )
        ),
        SELECT,
    )
    assert type(found) is TransientError
    assert [(each.condition, each.place) for each in found.problems] == [
        ("catalog-unreachable", Place("models/m.sql"))
    ]


SOME_DATA = "Some data may have been lost because they are not available in Kafka any more;\neither the data was aged"


@pytest.mark.parametrize(
    "error",
    [
        Py4JError(
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost. SQLSTATE: 22000"
        ),
        StreamingQueryException(
            f"[STREAM_FAILED] Query [id = 1] terminated: {SOME_DATA}\n\nReason: 4 < 9.\nThis is"
        ),
        Py4JError(
            trace(
                "x.Y: z",
                "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: out of range",
            )
        ),
    ],
)
def test_records_that_are_gone_are_named_by_the_next_try(error: Exception) -> None:
    """Which looks at the topics before it reads: one that was created again needs
    another command than lost records."""
    found = explain(error, SELECT)
    assert type(found) is TransientError
    assert [(each.condition, each.place) for each in found.problems] == [
        ("data-lost", Place("models/m.sql"))
    ]


def test_a_records_text_that_looks_like_a_java_error_is_not_transient() -> None:
    quoted = "a\nCaused by: java.net.ConnectException: refused"
    said = f"[CAST_INVALID_INPUT] The value '{quoted}' of the type \"STRING\" cannot be cast. SQLSTATE: 22018"
    found = explain(
        Py4JError(trace(f"org.apache.spark.SparkNumberFormatException: {said}")), SELECT
    )
    assert type(found) is RunError
    assert [problem.condition for problem in found.problems] == ["expression-failed"]


def test_a_defect_is_called_one() -> None:
    try:
        {}["partition"]  # type: ignore[index]
    except KeyError as error:
        found = explain(error, SELECT)
    (problem,) = found.problems
    assert isinstance(found, InternalError)
    assert (problem.condition, problem.what) == ("internal", "KeyError: 'partition'")
    assert problem.why.startswith("Raised in test_failure.py:")


def test_an_error_of_lakesqls_own_stays_as_it_is() -> None:
    own = RunError.of("table-behind", "what")
    assert explain(own, SELECT) is own
    away = explain(ProfileError.of("catalog-unreachable", "what"), SELECT)
    assert type(away) is TransientError
    assert [problem.condition for problem in away.problems] == ["catalog-unreachable"]


@each_of(
    ("text", "said"),
    [
        (
            "An error occurred while calling o109108.select.\n: java.lang.StackOverflowError\n\tat a.B.c(B.java:1)",
            "stack",
        ),
        (
            "An error occurred while calling o7.sql.\n: java.lang.NullPointerException\n\tat a.B.c(B.java:1)",
            "NullPointer",
        ),
        ("An error occurred while calling o7.sql", "nothing of why"),
        ("An error occurred while calling z:a.b.C.d.", "nothing of why"),
        ("Target Object ID does not exist for this gateway :o109108", "does not exist"),
    ],
)
def test_no_message_is_the_number_of_an_object(text: str, said: str) -> None:
    (problem,) = explain(Py4JError(text), SELECT).problems
    assert problem.condition == "batch-failed"
    assert said in problem.what
    (defect,) = InternalError.of_defect(Py4JError(text)).problems
    for shown in (problem.what, defect.what):
        assert re.search(r"calling|\bo\d+|\tat", shown) is None, shown
