"""The command in a process of its own: what it loads, and where it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakesql.cli.init import write_project

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh shop."""
    write_project(tmp_path / "shop", "shop")
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_"):
            monkeypatch.delenv(name)
    return tmp_path / "shop"


def test_help_and_version_import_nothing_heavy() -> None:
    for arguments in (["--help"], ["--version"]):
        loaded = modules_of(arguments, Path.cwd())
        assert not loaded & {
            "jinja2",
            "sqlglot",
            "yaml",
            "rich",
            "pyspark",
            "pyiceberg",
            "lakesql.graph.manifest",
        }


def modules_of(arguments: Sequence[str], directory: Path) -> set[str]:
    """The modules that a process has loaded after it ran a command line."""
    script = (
        "import sys\nfrom lakesql.cli.main import run_command\n"
        f"code = run_command({list(arguments)!r})\n"
        "print(code, *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *loaded = done.stderr.splitlines()[-1].split(" ")
    assert code == "0", done.stderr
    return set(loaded)


OF_SOURCES = ("concurrent.futures", "logging", "socket", "lakesql.source.mqtt_taker")
"""What records alone are read with, not what is said of a source."""


def test_compile_loads_neither_spark_nor_iceberg_and_reads_no_sql_twice(
    shop: Path,
) -> None:
    cold = modules_of(["compile"], shop)
    assert not {name.partition(".")[0] for name in cold} & {
        "pyspark",
        "pyiceberg",
        "py4j",
        "pyarrow",
        "sqlalchemy",
    }
    assert "sqlglot" in cold
    assert not modules_of(["compile"], shop) & {"sqlglot", *OF_SOURCES}


def test_a_preview_loads_nothing_that_starts_a_query() -> None:
    script = "import sys, lakesql.run.test.show_preview; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {*done.stdout.split()}
    assert "lakesql.engine.batch.sample" in loaded
    assert not loaded & {
        "lakesql.run.start.prepare_model",
        "lakesql.run.start.nothing_new",
        "lakesql.engine.maintenance.keeper",
    }
    assert "pandas" not in loaded


TOOLS = """
import sys
from lakesql.engine.spark.gateway import _spare_test_tools
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
_spare_test_tools()
converters = NumpyArrayConverter(), NumpyScalarConverter()
assert not any(each.can_convert("text") for each in converters)
assert not {"pandas", "pyspark.testing"} & {*sys.modules}
import numpy
assert converters[0].can_convert(numpy.zeros(2)) and converters[1].can_convert(numpy.int64(1))
assert not {"pandas", "pyspark.testing"} & {*sys.modules}
from pyspark.testing.utils import assertDataFrameEqual
assert assertDataFrameEqual.__module__ == "pyspark.testing.utils" and "pandas" in sys.modules
import pyspark.testing
assert pyspark.testing.assertDataFrameEqual is assertDataFrameEqual
"""


def test_pyspark_loads_its_test_tools_for_who_asks_for_them_alone() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TOOLS],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


TIMES = """
import struct, sys
from datetime import UTC, datetime, timedelta
import pyarrow as pa
from lakesql.catalog.tables import python_rows

def times(zone, *us):
    # pyarrow imports pandas to make an array of a list
    kind, valid = pa.timestamp("us", zone), sum((each is not None) << at for at, each in enumerate(us))
    values = struct.pack(f"<{len(us)}q", *(each or 0 for each in us))
    return pa.Array.from_buffers(kind, len(us), [pa.py_buffer(bytes([valid])), pa.py_buffer(values)])

zoned, plain = times("UTC", -1, None, 253402214400 * 10**6), times(None, -1, None, 0)
names = ["zoned", "plain"]
table = pa.Table.from_arrays([zoned, pa.chunked_array([plain.slice(0, 1), plain.slice(1)])], names=names)
found, last = [*python_rows(table)], [*python_rows(table.slice(2))]
assert "pandas" not in sys.modules
assert found == [*zip(zoned.to_pylist(), plain.to_pylist())] and last == found[2:]
assert found[0] == (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999))
assert found[0][0].utcoffset() == timedelta(0) and found[1] == (None, None)
late = pa.Table.from_arrays([times("UTC", 2**60, None)], names=["late"])
assert [(type(each),) for (each,) in python_rows(late)] == [(str,), (type(None),)]
"""


def test_times_of_rows_need_no_pandas() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TIMES],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_lint_loads_neither_spark_nor_iceberg_and_reads_no_sql_twice(
    shop: Path,
) -> None:
    cold = modules_of(["lint"], shop)
    assert not {name.partition(".")[0] for name in cold} & {
        "pyspark",
        "pyiceberg",
        "py4j",
        "pyarrow",
        "sqlalchemy",
    }
    assert "lakesql.lint.linted_model" in cold
    assert "lakesql.lint.linted_model" not in modules_of(["lint"], shop)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_characters_that_the_output_lacks_are_escaped_and_secrets_masked(
    shop: Path, encoding: str
) -> None:
    """What it has not is written as an escape, and a secret is masked all the same."""
    model = shop / "models" / "orders.sql"
    model.write_text(
        "-- 5 \N{EURO SIGN}, hushhush\n" + model.read_text("utf-8"), "utf-8"
    )
    variables = {"PYTHONIOENCODING": encoding, "LAKESQL_SECRET_X": "hushhush"}
    command = [sys.executable, "-m", "lakesql", "compile", "--select", "orders"]
    done = subprocess.run(
        command,
        cwd=shop,
        env={**os.environ, **variables},
        capture_output=True,
        check=True,
    )
    printed = done.stdout.decode("latin-1" if encoding == "latin-1" else "utf-8")
    assert ("\\u20ac" if encoding == "latin-1" else "\N{EURO SIGN}") in printed
    assert "hushhush" not in printed and "***" in printed


def test_a_closed_stdout_is_no_error(shop: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m lakesql ls >&-"],
        cwd=shop,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("reader", ["head -c 10", "true"])
@pytest.mark.parametrize("words", ["compile", "ls", "--help", "run --help"])
def test_a_reader_that_has_seen_enough_is_no_error(
    shop: Path, words: str, reader: str
) -> None:
    command = f"sleep 0.1; {sys.executable} -m lakesql {words}; echo $? >&2"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.run(
        ["bash", "-c", f"({command}) | {reader} >/dev/null"],
        cwd=shop,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert pipe.stderr == "0\n"


@pytest.mark.parametrize(
    ("variables", "painted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_errors_are_coloured_on_a_terminal_that_wants_it(
    shop: Path, variables: dict[str, str], painted: bool
) -> None:
    import pty

    environ = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lakesql", "ls", "-t", "nowhere"],
        cwd=shop,
        env={**environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # Linux says the end of a terminal so
        pass
    os.close(ours)
    assert process.wait() == 2
    assert (b"\x1b[" in said, b"error[unknown-target]" in said) == (painted, True)
