"""The tools that `lakesql mcp` offers to an assistant: their names, their arguments,
and what each may change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from lakesql.errors import UsageError, did_you_mean

Allowance: TypeAlias = Literal["run", "test"]
"""The values of `--allow`, which offer the tools that change something."""

ALLOWANCES: tuple[Allowance, ...] = get_args(Allowance)

MOST_WORDS = 50
"""The maximal number of items in an argument that is a list, such as the words of a
selection."""

LONGEST_TEXT = 500
"""The maximal length, in characters, of a text that an assistant sends: a name, a word,
a git reference."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool: a text, a list of texts, or one of a few words."""

    name: str
    doc: str
    kind: Literal["text", "texts"] = "text"
    words: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The argument as JSON Schema."""
        text: dict[str, Any] = {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_TEXT,
        }
        if self.words:
            return {"type": "string", "enum": list(self.words), "description": self.doc}
        if self.kind == "texts":
            return {
                "type": "array",
                "items": text,
                "maxItems": MOST_WORDS,
                "description": self.doc,
            }
        return {**text, "description": self.doc}


@dataclass(frozen=True, slots=True)
class AssistantTool:
    """A tool. `allowance` is the value of `--allow` that it needs, None if it only
    reads. `reads_tables` tells whether it also uses the target's catalog, or only the
    project's files."""

    name: str
    doc: str
    arguments: tuple[Argument, ...] = ()
    allowance: Allowance | None = None
    reads_tables: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        return {
            "type": "object",
            "properties": {
                argument.name: argument.schema for argument in self.arguments
            },
            "required": [
                argument.name for argument in self.arguments if argument.is_required
            ],
            "additionalProperties": False,
        }


_SELECT = Argument(
    "select",
    "What to select, in the words of --select, such as +orders or tag:web.",
    "texts",
)
_EXCLUDE = Argument("exclude", "What to exclude, in the same words.", "texts")
_KINDS = ("model", "stream", "seed", "test", "maintenance")

TOOLS = (
    AssistantTool(
        "ls",
        "Models, streams and seeds, each after those it reads: paths, modes, tables, configuration, descriptions.",
        (_SELECT, _EXCLUDE, Argument("resource_type", "These only.", words=_KINDS)),
    ),
    AssistantTool(
        "compile",
        "The SQL that a model runs: each statement, and what it means in words.",
        (Argument("model", "The model's name.", is_required=True),),
    ),
    AssistantTool(
        "plan",
        "What a change of the files does to tables and streams, compared with a commit: a verdict for each model.",
        (
            _SELECT,
            _EXCLUDE,
            Argument(
                "against",
                "Commit to compare with. Left out: where the branch has left the main branch.",
            ),
        ),
    ),
    AssistantTool(
        "lineage",
        "The columns that a column is made of, through all models, and those that are made of it.",
        (
            Argument("name", "MODEL or MODEL.COLUMN.", is_required=True),
            Argument(
                "direction", "One of both alone.", words=("upstream", "downstream")
            ),
        ),
    ),
    AssistantTool(
        "lint",
        "What the project says rightly, and its author may regret.",
        (_SELECT, _EXCLUDE),
    ),
    AssistantTool(
        "status",
        "How tables are: freshness, files, deletes, what is not compacted. Asks the target's catalog.",
        (_SELECT, _EXCLUDE),
        reads_tables=True,
    ),
    AssistantTool(
        "explain",
        "What an error's condition, or a code of the linter, means, and what to do.",
        (
            Argument(
                "name",
                "The condition or the code, such as unknown-column or LK012.",
                is_required=True,
            ),
        ),
    ),
    AssistantTool(
        "results", "How the last run and the last data tests on this target have ended."
    ),
    AssistantTool(
        "option",
        "What an option means: of a model's config, a properties file, a stream, a target, a connection, the settings.",
        (
            Argument(
                "name", "The option's name, such as sequence_by.", is_required=True
            ),
        ),
    ),
    AssistantTool(
        "test",
        "Run unit tests of models and data tests of their tables. May take minutes, and writes failing rows where a "
        "test stores them.",
        (
            _SELECT,
            _EXCLUDE,
            Argument("kind", "These tests alone.", words=("unit", "data")),
        ),
        allowance="test",
        reads_tables=True,
    ),
    AssistantTool(
        "run",
        "Run the selected models once: read what arrived in their streams, and write it to their tables.",
        (Argument("select", _SELECT.doc, "texts", is_required=True), _EXCLUDE),
        allowance="run",
        reads_tables=True,
    ),
)


def listed_tools(allowed: Collection[Allowance]) -> tuple[AssistantTool, ...]:
    """The tools that only read, and those that are allowed."""
    return tuple(
        tool for tool in TOOLS if tool.allowance is None or tool.allowance in allowed
    )


def find_tool(name: str, allowed: Collection[Allowance]) -> AssistantTool:
    """The tool with this name. Raises `UsageError`: `bad-tool-call` if there is none,
    `tool-not-allowed` if it is not allowed."""
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        fix = did_you_mean(
            name[:LONGEST_TEXT], [tool.name for tool in listed_tools(allowed)]
        )
        raise UsageError.of(
            "bad-tool-call", f"There is no tool '{name[:LONGEST_TEXT]}'.", fix=fix
        )
    if tool.allowance is not None and tool.allowance not in allowed:
        raise UsageError.of(
            "tool-not-allowed",
            f"The tool '{tool.name}' changes something, and is not allowed.",
        )
    return tool


def read_arguments(
    tool: AssistantTool, given: Mapping[str, object]
) -> dict[str, str | tuple[str, ...]]:
    """The arguments of a call, checked against the tool's. Raises `UsageError`
    (`bad-tool-call`)."""
    known = {argument.name: argument for argument in tool.arguments}
    for name in given:
        if name not in known:
            fix = (
                did_you_mean(name[:LONGEST_TEXT], known)
                or "Leave it out: the tool takes nothing."
            )
            raise _bad_call(
                tool, f"'{name[:LONGEST_TEXT]}' is none of its arguments", fix
            )
    read = {
        name: _read(tool, known[name], value)
        for name, value in given.items()
        if value is not None
    }
    missing = [
        argument.name
        for argument in tool.arguments
        if argument.is_required and not read.get(argument.name)
    ]
    if missing:
        raise _bad_call(
            tool, f"its argument '{missing[0]}' is missing", known[missing[0]].doc
        )
    return read


def _read(
    tool: AssistantTool, argument: Argument, value: object
) -> str | tuple[str, ...]:
    if argument.kind == "texts":
        if not isinstance(value, list) or len(value) > MOST_WORDS:
            raise _bad_call(
                tool,
                f"'{argument.name}' is no list of {MOST_WORDS} texts at most",
                argument.doc,
            )
        return tuple(_read_text(tool, argument, item) for item in value)
    text = _read_text(tool, argument, value)
    if argument.words and text not in argument.words:
        raise _bad_call(
            tool,
            f"'{text}' is none of the words of '{argument.name}'",
            _list_words(argument.words),
        )
    return text


def _read_text(tool: AssistantTool, argument: Argument, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _bad_call(tool, f"a value of '{argument.name}' is no text", argument.doc)
    if len(value) > LONGEST_TEXT:
        raise _bad_call(
            tool,
            f"a value of '{argument.name}' has more than {LONGEST_TEXT} characters",
            argument.doc,
        )
    if not value.isprintable():
        raise _bad_call(
            tool,
            f"a value of '{argument.name}' has characters that no name has",
            argument.doc,
        )
    return value


def _list_words(words: Sequence[str]) -> str:
    return f"It is one of: {', '.join(words)}."


def _bad_call(tool: AssistantTool, what: str, fix: str) -> UsageError:
    return UsageError.of(
        "bad-tool-call", f"Of a call of '{tool.name}', {what}.", fix=fix
    )
