"""Asks Spark for its functions: `python -m tests.spark.functions` writes
`lakesql/select/registry.py`, in minutes.

A count of arguments is wrong where the analyzer says so (WRONG_NUM_ARGS); whatever else
it says, the count was right.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

MOST = 12
"""So many arguments are tried. What takes as many takes any number."""

REGISTRY = Path(__file__).parents[2] / "lakesql" / "select" / "registry.py"

HEAD = '''"""The functions of Spark {version}, by the numbers of arguments that they take.

Written by `tests/spark/functions.py`.
"""

from __future__ import annotations

VERSION = "{version}"

COUNTS = {{
{counts}
}}
"""`1-2` is one or two, `2-` two or more, `0,2-` any even number."""
'''


def read_names(session: SparkSession) -> set[str]:
    """The names of the functions that are called by name, those of FROM among them."""
    return {
        name
        for (name,) in session.sql("SHOW FUNCTIONS").collect()
        if re.fullmatch(r"\w+", name)
    } - {"case"}


def takes(session: SparkSession, name: str, count: int) -> bool:
    """Whether a function takes so many arguments, in a SELECT or in FROM."""
    call = f"`{name}`({', '.join(['NULL'] * count)})"
    said = [
        _refusal(session, text) for text in (f"SELECT {call}", f"SELECT * FROM {call}")
    ]
    return any(_WRONG.search(text) is None for text in said)


_WRONG = re.compile(
    r"\[(WRONG_NUM_ARGS|REQUIRED_PARAMETER_NOT_FOUND|UNRESOLVED_ROUTINE|UNRESOLVABLE_TABLE_VALUED_FUNCTION)"
)


def _refusal(session: SparkSession, text: str) -> str:
    try:
        session.sql(text)
    except (PySparkException, Py4JError) as error:
        return str(error)
    return ""


def describe(counts: list[int]) -> str:
    """The counts as the registry has them."""
    if counts == list(range(0, MOST + 1, 2)):
        return "0,2-"
    if counts == list(range(counts[0], counts[-1] + 1)):
        if counts[-1] == MOST:
            return f"{counts[0]}-"
        return f"{counts[0]}-{counts[-1]}" if len(counts) > 1 else str(counts[0])
    return ",".join(map(str, counts))


def render(names: Iterable[str], takes: Callable[[str, int], bool]) -> str:
    """The text of `registry.py`."""
    by_counts: dict[str, list[str]] = {}
    for name in sorted(names):
        if counts := [count for count in range(MOST + 1) if takes(name, count)]:
            by_counts.setdefault(describe(counts), []).append(name)
    entries = []
    for counts_text, found in sorted(by_counts.items()):
        lines = textwrap.wrap(" ".join(found), 110, break_on_hyphens=False)
        body = "\n".join(f"        {line}" for line in lines)
        entries.append(f'    "{counts_text}": """\n{body}\n    """,')
    return HEAD.format(version=pyspark.__version__, counts="\n".join(entries))


def main() -> None:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    REGISTRY.write_text(
        render(read_names(session), lambda name, count: takes(session, name, count)),
        "utf-8",
    )


if __name__ == "__main__":
    main()
