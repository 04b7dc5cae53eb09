"""Which condition an exception of Spark, Java or Python is while a model runs: an error
that its author or operator can act on, and whether it is transient."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from lakesql.compile.checks import Check
from lakesql.compile.select import Select
from lakesql.conditions import UNREACHABLE
from lakesql.errors import (
    InternalError,
    LakesqlError,
    Place,
    Problem,
    ProfileError,
    RunError,
    TransientError,
    explain_missing,
    without_object,
)

_log = logging.getLogger(__name__)


def explain(error: Exception, select: Select) -> LakesqlError:
    """The error for an exception of a model's run: lakesql's own errors as they are,
    Spark's with the line of the model that they refer to.

    Failures that may pass by themselves become a `TransientError`; what neither Spark,
    Java nor the operating system raised becomes an `InternalError`.
    """
    if isinstance(error, LakesqlError):
        is_away = AWAY_OR_WRONG.issuperset(
            problem.condition for problem in error.problems
        )
        return TransientError(error.problems) if is_away else error
    if missing := explain_missing(error):
        return missing
    if not isinstance(error, Py4JError | PySparkException | OSError):
        _log.error("Model '%s' met a defect", select.model.name, exc_info=error)
        return InternalError.of_defect(error)
    failure = _Failure(error, str(error), *read_cause(error))
    if (unopened := _find_catalog_problem(failure)) is not None and next(
        find_transient(error), None
    ) is None:
        return ProfileError([unopened])
    # its message quotes a value, which may look like an exception of Java's
    about_value = _find_value_problem(failure)
    passing = next(find_transient(error), None)
    if passing is not None and about_value is None:
        kind, said = passing
        where = Place(select.model.path)
        return TransientError.of(
            kind.condition,
            f"{kind.what}: {said}",
            why=kind.why,
            fix=kind.fix,
            place=where,
        )
    if about_value is None and (lost := _find_loss(failure)):
        # when the query is started again, the lost records are named
        return TransientError([lost.at(_place(failure.message, select))])
    problem = (
        about_value
        or _find_python_problem(failure)
        or _find_file_problem(failure)
        or _find_analysis_problem(failure)
        or _find_storage_problem(failure)
        or _other_problem(failure)
    )
    return RunError([problem.at(_place(failure.message, select))])


@contextmanager
def explained(select: Select) -> Iterator[None]:
    """Turn whatever is raised inside into lakesql's own error; lakesql's errors stay as
    they are."""
    try:
        yield
    except LakesqlError:
        raise
    except Exception as error:
        raise explain(error, select) from None


_LOGS = "logs/ holds what Spark says of it."
_INVISIBLE = (
    "Nothing of the batch is visible to readers; the next run takes it up again."
)


# --- what ends the model


@dataclass(frozen=True, slots=True)
class _Failure:
    """What Spark reports: `message` is the whole text, `name` the condition or the
    class of the innermost cause, `what` its text."""

    error: Exception
    message: str
    name: str
    what: str


_CONDITION = re.compile(
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (.+?)(?: SQLSTATE: \w+)?(?:;? \(?line \d+,? pos \d+\)?;?)?(?:\n|$)"
)
_WORDLESS = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)


def read_cause(error: Exception) -> tuple[str, str]:
    """The innermost cause of an exception of Spark's: its condition or class ('' if
    there is none), and its message."""
    message = str(error)  # with the causes in it: the last one is at the bottom of it
    found = [*_CONDITION.finditer(message)][-1:] or [*_CAUSE.finditer(message)][-1:]
    if found:
        return found[0][1], found[0][2]
    if wordless := [*_WORDLESS.finditer(message)][-1:]:
        return wordless[0][1], "Java says no more of it"
    first = without_object(message.strip().split("\n")[0])
    return "", first or "Java has failed, and says nothing of why"


_OPENS_CATALOG = re.compile(
    r"^\s*at org\.apache\.iceberg\.spark\.SparkCatalog\.initialize\(", re.MULTILINE
)


def _find_catalog_problem(failure: _Failure) -> Problem | None:
    """The problem of a catalog that Java fails to open; None for other failures. It
    comes from the profile's keys, so a next run would fail too."""
    if not _OPENS_CATALOG.search(_trace(failure.error)):
        return None
    return Problem(
        "catalog-options", f"Spark cannot open the target's catalog: {failure.what}"
    )


_CAST = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "DIVIDE_BY_ZERO",
    "ARITHMETIC_OVERFLOW",
)


def _find_value_problem(failure: _Failure) -> Problem | None:
    if not any(condition in failure.name for condition in _CAST):
        return None
    return Problem(
        "expression-failed",
        failure.what,
        why="Under ANSI rules a value that does not fit fails the batch; nothing of it was written.",
    )


_LOST = re.compile(
    r"\[KAFKA_DATA_LOSS\b|Some data may have been lost because they are not available in Kafka|"
    r"kafka\S*\.OffsetOutOfRangeException"
)
_REASON = re.compile(r"^\s*Reason: (.+)$", re.MULTILINE)
"""The line in which Spark gives the cause of a data loss, after lines with possible
causes."""


def _find_loss(failure: _Failure) -> Problem | None:
    if not _LOST.search(failure.message):
        return None
    reason = _REASON.search(failure.message)
    return Problem(
        "data-lost",
        f"Records that the batch was to read are gone from the broker: {reason[1] if reason else failure.what}",
        why="The topic's retention is shorter than what this query is behind, or it was deleted, or its records were.",
        fix="The next try says which records, and what to do.",
    )


def _find_analysis_problem(failure: _Failure) -> Problem | None:
    if not isinstance(failure.error, AnalysisException):
        return None
    advice = next(
        (text for name, text in _ADVICE.items() if failure.name.startswith(name)), ""
    )
    return Problem("analysis-failed", failure.what or failure.message, fix=advice)


_ADVICE = {
    "UNRESOLVED_COLUMN": "Correct the name.",
    "FIELD_NOT_FOUND": "Correct the name of the field.",
    "AMBIGUOUS_REFERENCE": "Qualify it with the alias of its table.",
    "DATATYPE_MISMATCH": "Make the types fit, with CAST or try_cast.",
    "INVALID_EXTRACT_BASE_FIELD_TYPE": "Leave the field out, or read the text first, as from_json does.",
    "TABLE_OR_VIEW_NOT_FOUND": "Correct the table's name; a model's table is read with ref('…').",
    "UNRESOLVED_ROUTINE": "Correct the function's name.",
    "WRONG_NUM_ARGS": "Give it as many arguments as it takes.",
    "MISSING_AGGREGATION": "Add the column to GROUP BY, or aggregate it.",
    "MISSING_GROUP_BY": "Add GROUP BY, or aggregate every column.",
    "NUM_COLUMNS_MISMATCH": "Give every branch the same columns.",
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": "Add OVER (…).",
    "PARSE_SYNTAX_ERROR": "Correct the SQL here.",
}
"""What to do, by the prefix of Spark's condition."""


_NO_MODULE = re.compile(
    r"^(?:\w+\.)*ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE
)
_NO_PROGRAM = re.compile(r"Cannot run program \"([^\"]*python[^\"]*)\"")
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.+)")


def _find_python_problem(failure: _Failure) -> Problem | None:
    """The problem of executors whose Python is missing, has another version, or lacks
    the packages that read Protobuf; None for other failures."""
    trace = _trace(failure.error)
    if found := _NO_PROGRAM.search(trace):
        what = f"Executors find no Python at {found[1]}."
    elif found := _NO_MODULE.search(trace):
        what = f"The Python of the executors has no {found[1]}."
    elif found := _OTHER_PYTHON.search(trace):
        what = found[1]
    else:
        return None
    return Problem("executor-python", what, why=_INVISIBLE)


_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+)\.(?:\s|$)"
)
_UNLISTED = re.compile(r"URISyntaxException: Relative path in absolute URI: (.+)")


def unlisted_name(error: BaseException) -> str | None:
    """The name of the file that keeps Hadoop from listing its folder; None if the error
    is another one."""
    found = _UNLISTED.search(str(error))
    return found[1].strip() if found else None


def unreadable_file(error: BaseException) -> tuple[str, str] | None:
    """The URI of the file that Spark could not read, and why; None if the error names
    no file."""
    found = _UNREADABLE.search(_trace(error))
    if found is None:
        return None
    name, what = read_cause(Exception(_trace(error)))
    said = what.partition(f"{found[2]}. ")[2] or what
    return found[2], said if name.startswith("FAILED_READ_FILE") else f"{name}: {said}"


def _find_file_problem(failure: _Failure) -> Problem | None:
    if unlisted := unlisted_name(failure.error):
        what = f"Hadoop does not list the folder in which '{unlisted}' is, as its name has a colon."
        return Problem("file-name", what, why=_INVISIBLE)
    unreadable = unreadable_file(failure.error)
    if unreadable is None:
        return None
    uri, why = unreadable
    return Problem(
        "file-unreadable", f"{unquote(uri)} cannot be read: {why}", why=_INVISIBLE
    )


_NOT_ALLOWED = re.compile(
    r"AccessDenied|AccessControlException|Permission denied|FileNotFoundException"
)
_STORAGE = re.compile(
    r"^(S3|SdkClient|NoSuchBucket|UnknownStore|AccessDenied|NotFound|Forbidden)Exception$"
)


def is_of_storage(error: Exception) -> bool:
    """Whether the storage refused the request, or does not have the file, so that the
    content of the file is not at fault."""
    name, what = read_cause(error)
    return (
        bool(_STORAGE.match(name))
        or "FILE_NOT_EXIST" in name
        or bool(_NOT_ALLOWED.search(f"{name} {what}"))
    )


def _find_storage_problem(failure: _Failure) -> Problem | None:
    if "S3AFileSystem not found" in failure.message:
        return Problem(
            "storage-unreachable",
            "The tables lie in S3, and the profile does not speak of it, so the jars for S3 were not fetched.",
            fix="Give the target's `catalog` an `s3.` key, such as `s3.region`.",
        )
    if _STORAGE.search(failure.name):
        return Problem(
            "storage-unreachable",
            f"The storage refuses what it was asked: {failure.what}",
            why=_INVISIBLE,
        )
    return None


def _other_problem(failure: _Failure) -> Problem:
    # raised when a table that was loaded before is refreshed
    if "Table UUID does not match" in failure.message:
        return Problem(
            "table-recreated",
            "A table of the model was dropped and made again while a batch was written.",
        )
    if ahead := _AHEAD.search(failure.message):
        at = datetime.fromtimestamp(int(ahead[1]) / 1000, UTC).isoformat(
            timespec="seconds"
        )
        return Problem(
            "table-ahead",
            f"A table of the model has a snapshot of {at}, which is still to come by this clock.",
        )
    if (
        failure.name == "StackOverflowError"
        or "java.lang.StackOverflowError" in failure.message
    ):
        return Problem(
            "batch-failed",
            "StackOverflowError: the SELECT has more columns, or expressions deeper within each other, than fit in the "
            "stack of a thread of Java's.",
            why=_INVISIBLE,
            fix="Give Java's threads larger stacks, with `spark.driver.extraJavaOptions: -Xss128m` in the target's "
            "`spark.conf`, and `spark.executor.extraJavaOptions` on a cluster.",
        )
    what = f"{failure.name}: {failure.what}" if failure.name else failure.what
    return Problem("batch-failed", what, why=_INVISIBLE)


_AHEAD = re.compile(r"Invalid (?:snapshot|update) timestamp \d+: before [\w ]+? (\d+)")
"""Iceberg's message for a commit whose time would be more than a minute before that of
the one before it."""

_IN_SQL = re.compile(r"== SQL(?: of [^(]*)? \(line (\d+), position (\d+)\) ==")
_AT = re.compile(r"(?:; |\()line (\d+),? pos (\d+)")
"""Where the analyzer locates an error: the line from 1, the position in it from 0."""


def _place(message: str, select: Select) -> Place:
    """Where the model's file has what Spark complains about; the file as a whole if
    Spark names no line."""
    if found := [*_IN_SQL.finditer(message)]:
        if check := _check_in(message[found[-1].end() :], select):
            return check.place
        line, position = int(found[-1][1]), int(found[-1][2]) - 1
    elif at := _AT.search(message):
        line, position = int(at[1]), int(at[2])
    else:
        return Place(select.model.path)
    lines = select.text.split("\n")
    if line > len(lines):
        return Place(select.model.path)
    return select.place(sum(len(text) + 1 for text in lines[: line - 1]) + position)


def _check_in(quoted: str, select: Select) -> Check | None:
    """The expectation whose SQL Spark quotes; None if it quotes other SQL."""
    line = next(iter(quoted.strip().splitlines()), "")
    return next(
        (
            it
            for it in select.checks
            if it.is_written and it.condition.splitlines()[0] in line
        ),
        None,
    )


# --- transient failures


@dataclass(frozen=True, slots=True)
class TransientFailure:
    """A kind of failure that may pass by itself: the Java exceptions that show it, and
    a pattern of their messages."""

    condition: str
    what: str
    exceptions: re.Pattern[str]
    says: re.Pattern[str] = re.compile("")
    why: str = ""
    fix: str = ""


_START_THE_BROKER = (
    "Start the broker; if it runs, look at the network between it and this machine."
)
_CONFLICT = TransientFailure(
    "commit-conflict",
    "Another writer changed the table at the same time",
    re.compile(r"org\.apache\.iceberg\.exceptions\.CommitFailedException"),
)

_EXECUTOR_LOST = TransientFailure(
    "executor-lost",
    "An executor was lost, and with it what it held of the batch",
    re.compile(r"org\.apache\.spark\.SparkException"),
    re.compile(r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|ExecutorLostFailure"),
    why=_INVISIBLE,
)

PASSING = (
    TransientFailure(
        "commit-unknown",
        "The catalog did not say whether a commit was made",
        re.compile(r"org\.apache\.iceberg\.exceptions\.CommitStateUnknownException"),
        why="Whether the commit was made, the table's ledger tells before the batch is written again.",
    ),
    _CONFLICT,
    replace(
        _CONFLICT,
        exceptions=re.compile(r"org\.apache\.iceberg\.exceptions\.ValidationException"),
        says=re.compile(
            r"^Found (new )?conflicting |^Found concurrently added DV|^Missing required files to delete|"
            # if data files were compacted meanwhile
            r"^Cannot commit, (missing data files|found new (position )?delete)"
        ),
    ),
    replace(
        _CONFLICT,
        what="A table that the model reads was changed while a batch was made",
        exceptions=re.compile(
            r"org\.apache\.spark\.sql\.(catalyst\.Extended)?AnalysisException"
        ),
        says=re.compile(
            r"INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS|INCOMPATIBLE_COLUMN_CHANGES_AFTER_VIEW"
        ),
        fix="The next try reads it as it is then.",
    ),
    replace(
        _CONFLICT,
        what="Another runner has planned a batch in this checkpoint, whose lease it has lost",
        exceptions=re.compile(
            r"org\.apache\.spark\.SparkConcurrentModificationException"
        ),
        says=re.compile(r"CONCURRENT_STREAM_LOG_UPDATE"),
        fix="The next try takes that batch up. The other runner ends by itself.",
    ),
    _EXECUTOR_LOST,
    replace(
        _EXECUTOR_LOST,
        exceptions=re.compile(
            r"org\.apache\.spark\.shuffle\.(Metadata)?FetchFailedException"
        ),
        says=re.compile(""),
    ),
    TransientFailure(
        "connection-unreachable",
        "A broker does not answer",
        re.compile(
            r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|"
            r"NotLeaderOrFollower|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotCoordinator|ReplicaNotAvailable|"
            r"KafkaStorage|NotEnoughReplicas|ThrottlingQuotaExceeded)Exception"
        ),
        fix=_START_THE_BROKER,
    ),
    TransientFailure(
        "connection-unreachable",
        "A broker's name is not known to this machine",
        re.compile(r"org\.apache\.kafka\.common\.config\.ConfigException"),
        re.compile(r"^No resolvable bootstrap urls"),
        fix="Correct `bootstrap_servers`; if it is right, look at the network, and at what resolves names in it.",
    ),
    TransientFailure(
        "connection-unreachable",
        "A broker does not give its records",
        re.compile(r"java\.util\.concurrent\.TimeoutException"),
        re.compile(r"^Cannot fetch record"),
        fix=_START_THE_BROKER,
    ),
    TransientFailure(
        "storage-unreachable",
        "The storage does not answer",
        re.compile(
            r"software\.amazon\.awssdk\.core\.exception\.(SdkClient|ApiCallTimeout|ApiCallAttemptTimeout)Exception"
        ),
        re.compile(
            r"Unable to execute HTTP request|Timeout|timed out|Connection",
            re.IGNORECASE,
        ),
        fix=_LOGS,
    ),
    TransientFailure(
        "storage-unreachable",
        "The storage answers with an error of its own",
        re.compile(r"software\.amazon\.awssdk\.services\.s3\.model\.\w*Exception"),
        re.compile(
            r"Status Code: (5\d\d|429)|SlowDown|Slow Down|InternalError|RequestTimeout"
        ),
        fix=_LOGS,
    ),
    TransientFailure(
        "catalog-unreachable",
        "The catalog does not answer",
        re.compile(
            r"org\.apache\.iceberg\.exceptions\.(RESTException|ServiceFailureException|ServiceUnavailableException)|"
            r"java\.sql\.SQL(Transient|Recoverable|NonTransientConnection|Timeout)\w*Exception|"
            r"org\.apache\.thrift\.transport\.TTransportException"
        ),
    ),
    TransientFailure(
        "catalog-unreachable",
        "The catalog is busy or away",
        re.compile(
            r"org\.sqlite\.SQLiteException|org\.postgresql\.util\.PSQLException|java\.sql\.SQL\w*Exception"
        ),
        re.compile(
            r"SQLITE_(BUSY|LOCKED)|database is locked|^(This |The )?connection|I/O error|"
            r"^FATAL: (the database system is|terminating|sorry, too many|too many connections for|"
            r"remaining connection slots are reserved)|"
            r"^ERROR: (deadlock detected|could not serialize access|cannot execute .+ in a read-only transaction)",
            re.IGNORECASE,
        ),
    ),
    TransientFailure(
        "catalog-unreachable",
        "A service does not answer",
        re.compile(
            r"java\.net\.(Connect|UnknownHost|SocketTimeout|Socket|NoRouteToHost)Exception|"
            r"java\.net\.http\.HttpTimeoutException|[\w.]+\.(HttpHostConnect|ConnectTimeout|NoHttpResponse)Exception"
        ),
        fix=_LOGS,
    ),
)
"""From the most to the least specific. Any other failure would fail again: it ends the
model."""

AWAY_OR_WRONG = UNREACHABLE | {"not-a-catalog"}
"""Conditions that are the profile's fault before a model has run, and transient after
that: a gateway whose catalog is unreachable answers with a page of its own."""

_RAISED = re.compile(
    r"^(?:.*\(TID \d+\) \([^)]*\): |Caused by: |: )?((?:[a-z]\w*\.)+[\w$]+(?:Exception|Error))(?:: (.*))?$",
    re.MULTILINE,
)


def find_transient(error: BaseException) -> Iterator[tuple[TransientFailure, str]]:
    """The kinds of transient failure among an exception's causes, with their messages,
    the most specific first."""
    raised = [
        (found[1], found[2] or found[1]) for found in _RAISED.finditer(_trace(error))
    ]
    for kind in PASSING:
        for name, said in raised:
            if kind.exceptions.fullmatch(name) and kind.says.search(said):
                yield kind, said


def _trace(error: BaseException) -> str:
    """The message of an exception, with Java's stack trace, in which every cause begins
    a line."""
    return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
