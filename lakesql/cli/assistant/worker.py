"""The process of one tool call: it reads the call from stdin, and writes the answer to
stdout.

As each call has its own process, the process can be killed at its time limit, keeps
nothing of earlier calls, and can be guarded by an audit hook, which cannot be removed
again. It runs with Python's option `-P`, so that no file of the project is imported in
place of a module of Python.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakesql.cli.assistant.answers import ANSWERS, Answer, Question
from lakesql.cli.assistant.bounded import bounded
from lakesql.cli.assistant.guard import guard_process
from lakesql.cli.options import Options, find_directory, find_outputs
from lakesql.cli.project import profile_folders
from lakesql.cli.report import explain, in_order
from lakesql.errors import Problem
from lakesql.project.files import write_atomically


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A checked call, as it is sent to its process. Reading tools write only to
    `scratch`, which they share, so that later calls find what earlier ones have
    cached."""

    tool: str
    arguments: Mapping[str, str | tuple[str, ...]]
    options: Options
    scratch: Path
    changes: bool
    reads_tables: bool

    def render(self) -> str:
        """The call as JSON."""
        options = {name: str(value) for name, value in _paths(self.options).items()}
        return json.dumps(
            {
                "tool": self.tool,
                "arguments": self.arguments,
                "options": {
                    "target": self.options.target,
                    "vars": self.options.vars,
                    **options,
                },
                "scratch": str(self.scratch),
                "changes": self.changes,
                "reads_tables": self.reads_tables,
            }
        )


_FOLDERS = ("profiles_dir", "project_dir", "target_path", "log_path")


def _paths(options: Options) -> dict[str, Path]:
    found = {name: getattr(options, name) for name in _FOLDERS}
    return {name: path.absolute() for name, path in found.items() if path is not None}


def read_call(text: str) -> ToolCall:
    """The call from the JSON that `ToolCall.render` made."""
    said = json.loads(text)
    folders: dict[str, Any] = {
        name: Path(said["options"][name])
        for name in _FOLDERS
        if name in said["options"]
    }
    options = Options(
        target=said["options"]["target"], vars=said["options"]["vars"], **folders
    )
    arguments = {
        name: tuple(it) if isinstance(it, list) else it
        for name, it in said["arguments"].items()
    }
    return ToolCall(
        said["tool"],
        arguments,
        options,
        Path(said["scratch"]),
        said["changes"],
        said["reads_tables"],
    )


def main() -> None:
    """Answer the call on stdin. Whatever the called functions print is written to
    stderr."""
    call = read_call(sys.stdin.read())
    reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        said: dict[str, Any] = {"answer": bounded(_answer(call))}
    except Exception as error:
        problems = in_order(explain(error).problems)
        said = bounded(
            {"problems": [describe_problem(problem) for problem in problems]}
        )
    json.dump(said, reply)
    reply.close()


def _answer(call: ToolCall) -> Answer:
    results = find_outputs(call.options).target
    if call.changes:
        from lakesql.cli.assistant.allowed import CHANGES

        return CHANGES[call.tool](Question(call.options, call.arguments, results))
    own = replace(
        call.options,
        target_path=call.scratch / "target",
        log_path=call.scratch / "logs",
    )
    _copy_results(results, call.scratch / "target")
    tempfile.tempdir = str(call.scratch)
    sys.dont_write_bytecode = True
    readable = [
        find_directory(call.options),
        results,
        *profile_folders(call.options, find_directory(call.options)),
    ]
    guard_process(call.scratch, None if call.reads_tables else readable)
    return ANSWERS[call.tool](Question(own, call.arguments, results))


def _copy_results(results: Path, own: Path) -> None:
    """Copy the target's results into the folder of a reading tool, so that `result:`
    selects by what has run on the target."""
    for name in ("run_results.json", "test_results.json"):
        if (results / name).is_file():
            write_atomically(own / name, (results / name).read_bytes())
        else:
            (own / name).unlink(missing_ok=True)


def describe_problem(problem: Problem) -> dict[str, Any]:
    """A problem as JSON for an assistant. The quoted line of the file is left out, as
    it may contain secrets."""
    place = problem.place
    said: dict[str, Any] = {
        "condition": problem.condition,
        "what": problem.what,
        "do": problem.fix,
    }
    if problem.why:
        said["why"] = problem.why
    if place is not None:
        said["place"] = {"path": place.path, "line": place.line, "column": place.column}
    return said


if __name__ == "__main__":
    main()
