"""Writes the pictures, and what stands in docs/*.md between `<!-- generated: name -->`
and `<!-- end -->`.

The JSON Schemas of a project's files are written too (`schemas.py`).

`python docs/generate.py` rewrites them; with `--check` it changes nothing and fails
when one of them is stale.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import click

from docs.pictures.pictures import PICTURES
from docs.schemas import stale_schemas
from lakesql.cli.main import COMMANDS, cli
from lakesql.cli.options import common_options
from lakesql.compile.table import DEAD_LETTER_COLUMNS, DEFAULT_PROPERTIES
from lakesql.conditions import CONDITIONS
from lakesql.decode import Field, Node, fields_of
from lakesql.engine.spark.session import DEFAULTS, LOCAL_DEFAULTS
from lakesql.events import Event
from lakesql.graph.selector import METHODS, SELECTOR
from lakesql.lint.all_rules import MODULES, load_rule
from lakesql.lint.lint_settings import LintSettings
from lakesql.lsp.config_options import default_of as written_default
from lakesql.model.config import PartitionField, SortField, TableConfig, Trigger
from lakesql.model.data_tests import (
    TEST_KINDS,
    Condition,
    EntryOptions,
    TestOptions,
    Threshold,
)
from lakesql.model.expectations import EXPECTATION_KINDS
from lakesql.model.group import GroupConfig, Tables
from lakesql.model.properties import ColumnProperties, Freshness, ModelProperties
from lakesql.model.unit_tests import (
    Expect,
    GivenRef,
    GivenStream,
    GivenTable,
    Overrides,
    Rows,
    UnitTest,
)
from lakesql.modes.all_modes import MAINTENANCE, all_modes, namesakes
from lakesql.modes.append import PARTITIONED_APPEND_PROPERTIES
from lakesql.modes.changing import PARTITIONED_MERGE_PROPERTIES
from lakesql.names import RECORD_FIELDS
from lakesql.observe.lines import event_name
from lakesql.observe.metrics import RUN_METRICS, TABLE_METRICS, TABLE_STATES, Metric
from lakesql.observe.text import duration, percent, size
from lakesql.plan.health import USUAL_BOUNDS
from lakesql.project.duration import Duration
from lakesql.project.iceberg_options import ICEBERG, ICEBERG_OPTIONS
from lakesql.project.lineage_target import LINEAGE_TARGETS, LineageTarget
from lakesql.project.procedures import PROCEDURES, Maintenance
from lakesql.project.profiles import Catalog, Retries, Spark, Target
from lakesql.project.settings import Paths, SeedSettings, Settings
from lakesql.project.size import Size
from lakesql.records.formats.csv import Csv
from lakesql.registry.connection import Registry
from lakesql.review.verdicts import CAUSES, MEANINGS, VERDICTS
from lakesql.seed.seed_contract import SeedColumnOptions, SeedOptions
from lakesql.source.kinds import CONNECTIONS
from lakesql.source.notifications import Notifications
from lakesql.stream.shown_sample import SENSITIVE_WORDS
from lakesql.stream.source_table import _SourceTableOptions
from lakesql.stream.stream import Column, Watermark, _ColumnOptions, _StreamOptions
from lakesql.template.library import FILTERS, TESTS
from lakesql.template.library import METHODS as VALUE_METHODS
from lakesql.template.reader import SEVEN
from lakesql.unit.arrivals_given import Raw, RecordOptions
from lakesql.unit.change_given import ChangeOptions
from lakesql.words import Kind, read_words

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "lakesql"
MARKED = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Rewrite the pages, or say which ones are stale; the exit code."""
    fresh = {page: render_page(page) for page in sorted(DOCS.glob("*.md"))}
    fresh |= {DOCS / name: draw() for name, draw in PICTURES.items()}
    stale = [
        (path, text)
        for path, text in fresh.items()
        if not path.exists() or text != path.read_text()
    ]
    stale += stale_schemas().items()
    if "--check" in arguments:
        for page, _ in stale:
            print(f"{page.name} is stale: run `python docs/generate.py`.")
        return 1 if stale else 0
    for page, text in stale:
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
        print(f"{page.name} is written.")
    return 0


def render_page(page: Path) -> str:
    """The text of a page with its generated parts fresh."""
    return MARKED.sub(
        lambda found: f"{found[1]}{SECTIONS[found[2]]()}\n{found[3]}", page.read_text()
    )


# --- tables of options


def config_sections() -> str:
    """What `config(...)` takes: the options of every mode that writes a table, then
    each mode's own."""
    common = fields_of(TableConfig)
    shared = {field.name for field in common}
    parts = [f"### Every mode\n\n{option_table(common)}"]
    for kind in all_modes():
        word = kind.mode if issubclass(kind, TableConfig) else MAINTENANCE
        own = [
            field
            for field in fields_of(kind)
            if not issubclass(kind, TableConfig) or field.name not in shared
        ]
        table = option_table(own) if own else "It has no options of its own."
        where = (
            f" over {kind.reads}"
            if issubclass(kind, TableConfig) and len(namesakes(word)) > 1
            else ""
        )
        parts.append(f"### `mode='{word}'`{where}\n\n{option_doc(kind)}\n\n{table}")
    return "\n\n".join(parts)


def connection_sections() -> str:
    """The types of connections and the keys of each."""
    parts = [
        f"#### `type: {name}`\n\n{option_doc(kind)}\n\n{option_table(fields_of(kind))}"
        for name, kind in (*CONNECTIONS.items(), (Registry.kind, Registry))
    ]
    return "\n\n".join(parts)


def lineage_sections() -> str:
    """The types of `lineage` and the keys of each: those of all types last."""
    parts = []
    for name, kind in LINEAGE_TARGETS.items():
        shared = {field.name for field in fields_of(LineageTarget)}
        fields = sorted(fields_of(kind), key=lambda field: field.name in shared)
        parts.append(
            f"### `type: {name}`\n\n{option_doc(kind)}\n\n{option_table(fields)}"
        )
    return "\n\n".join(parts)


def maintenance_sections() -> str:
    """What `maintenance` takes, then the options of each procedure."""
    own = [field for field in fields_of(Maintenance) if field.name not in PROCEDURES]
    parts = [option_table(own)]
    for name, kind in PROCEDURES.items():
        takes = [f"`{key}` ({takes})" for key, takes in ICEBERG_OPTIONS[name].items()]
        others = f"Under `options`, of Iceberg {ICEBERG}: {', '.join(takes)}."
        parts.append(
            f"### {name}\n\n{option_doc(kind)}\n\n{option_table(fields_of(kind))}\n\n{others}"
        )
    return "\n\n".join(parts)


def target_table() -> str:
    """The keys of a target; its name is its key under `outputs:`."""
    return option_table(field for field in fields_of(Target) if field.name != "name")


def properties_table() -> str:
    """The keys of a model's entry in a properties file."""
    return option_table(
        field for field in fields_of(ModelProperties) if field.name != "place"
    )


def unit_test_sections() -> str:
    """The keys of a unit test, and those within it."""
    parts = [_keys_of(UnitTest)]
    heads: dict[str, type] = {
        "`overrides`": Overrides,
        "`given`: the model's own table": GivenTable,
        "`given`: a stream": GivenStream,
        "`given`: a table that is read by `ref`": GivenRef,
        "`expect`": Expect,
        "A change of a feed, in short": ChangeOptions,
        "`_record`, beside the columns of a record": RecordOptions,
    }
    parts += [f"### {head}\n\n{_keys_of(kind)}" for head, kind in heads.items()]
    return "\n\n".join(parts)


def data_test_sections() -> str:
    """Each data test with what it takes, then the options that all have."""
    parts = []
    for word, kind in TEST_KINDS:
        keys = list(fields_of(kind))
        parts.append(
            f"### `{word}`\n\n{option_doc(kind)}"
            + (f"\n\n{option_table(keys)}" if keys else "")
        )
    parts.append(f"### Options of every test\n\n{option_table(fields_of(TestOptions))}")
    parts.append(
        f"In properties files also:\n\n{option_table(fields_of(EntryOptions))}"
    )
    return "\n\n".join(parts)


def expectation_sections() -> str:
    """The keys of an expectation, by its kind."""
    heads = ("`that`", "`not_null`, of a column", "`accepted_values`, of a column")
    return "\n\n".join(
        f"### {head}\n\n{option_doc(kind)}\n\n{_keys_of(kind)}"
        for head, kind in zip(heads, EXPECTATION_KINDS, strict=True)
    )


def _keys_of(kind: type) -> str:
    """The keys of a part of a unit test; its place is no key."""
    return option_table(field for field in fields_of(kind) if field.name != "place")


def option_table(fields: Iterable[Field]) -> str:
    """One row a key: name, what it takes, default, meaning."""
    rows = [
        (f"`{field.name}`", kind_text(field.kind), default_text(field), field.doc)
        for field in fields
    ]
    return table(("Key", "Takes", "Default", "Meaning"), rows)


def option_doc(kind: type) -> str:
    """The docstring of an options type as a sentence or more; a leading `mode='x': `
    falls away."""
    text = sentence(re.sub(r"^`[^`]+`: ", "", " ".join((kind.__doc__ or "").split())))
    return text[:1].upper() + text[1:]


KINDS: Mapping[Any, str] = {
    datetime: "time",
    Rows: "list, or path",
    Raw: "text, or mapping",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    Trigger | None: "`available_now` or an interval",
    tuple[PartitionField, ...]: "transform, or list of them",
    tuple[SortField, ...]: "sort column, or list of them",
    tuple[Column, ...]: "mapping",
    Node: "mapping",
    Duration: "an interval",
    Threshold: "a comparison",
    Condition: "a condition",
    Condition | None: "a condition",
    Duration | None: "an interval",
    Size: "a size",
    Maintenance: "mapping, or `false`",
}


def kind_text(kind: Any) -> str:
    """What an option takes, in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in KINDS:
        return KINDS[kind]
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments if value)
    if origin in (typing.Union, types.UnionType):
        return kind_text(next(item for item in arguments if item is not type(None)))
    if origin is tuple:
        return "text, or list of texts" if arguments[0] is str else "list"
    if origin is not None or is_dataclass(kind):
        return "mapping"
    raise TypeError(f"docs/generate.py has no words for {kind}")


def default_text(field: Field) -> str:
    """A default as one writes it in the file."""
    if field.required:
        return "**required**"
    shown = (
        str(field.default)
        if isinstance(field.default, Threshold)
        else written_default(field)
    )
    return f"`{shown}`" if shown else ""


# --- other tables


def lint_rules() -> str:
    """Every rule of the linter in a table, then each with its texts."""
    rules = [load_rule(code) for code in MODULES]
    rows = [
        (
            f"[{it.code}](#{it.code.lower()}-{it.name})",
            f"`{it.name}`",
            it.finds,
            yes(bool(it.fix)),
        )
        for it in rules
    ]
    parts = [table(("Code", "Name", "Finds", "`--fix`"), rows)]
    for it in rules:
        parts.append(f"### {it.code} {it.name}\n\n{it.finds} {it.why}")
        parts.append(code_blocks(it.example))
        parts.append(f"Instead:\n\n{code_blocks(it.instead)}")
        parts += [f"With `--fix`: {it.fix[0].lower()}{it.fix[1:]}"] if it.fix else []
    return "\n\n".join(parts)


def yes(flag: bool) -> str:
    """A word for a cell that says whether something is so."""
    return "yes" if flag else ""


def code_blocks(files: Mapping[str, str]) -> str:
    """Files, each in a fence of its language; where there are several, each behind its
    path."""
    blocks = []
    for path, text in files.items():
        fence = f"```{LANGUAGES[Path(path).suffix]}\n{text.rstrip()}\n```"
        blocks.append(
            f"In {path}:\n\n{fence}"
            if len(files) > 1 or not path.startswith("models/")
            else fence
        )
    return "\n\n".join(blocks)


LANGUAGES = {".sql": "sql", ".yml": "yaml", ".toml": "toml"}


def lint_streams() -> str:
    """The streams that the examples of rules read."""
    text = (
        PACKAGE.parent / "tests" / "lint" / "project" / "streams" / "sample.yml"
    ).read_text()
    return f"```yaml\n{text.rstrip()}\n```"


def condition_list() -> str:
    """Every condition: its name, what it means, what to do."""
    return "\n\n".join(
        f"### {name}\n\n{entry.meaning} {entry.do}"
        for name, entry in sorted(CONDITIONS.items())
    )


def command_sections() -> str:
    """Every command as its `--help` has it, then the options that all of them share."""
    context = click.Context(cli, info_name="lakesql")
    parts = [
        command_section(
            name, typing.cast("click.Command", cli.get_command(context, name))
        )
        for name in COMMANDS
    ]
    shared = table(
        ("Option", "Variable", "Meaning"),
        [
            (option_names(option), f"`{option.envvar}`", sentence(option.help or ""))
            for option in common_options()
            if isinstance(option, click.Option)
        ],
    )
    return "\n\n".join([*parts, f"## Options of every command\n\n{shared}"])


def command_section(name: str, command: click.Command) -> str:
    """One command: how it is called, what it does, its own options."""
    shared = {option.name for option in common_options()}
    context = click.Context(
        command, info_name=name, parent=click.Context(cli, info_name="lakesql")
    )
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows = [
        (option_names(option), default_of(option), sentence(option.help or ""))
        for option in command.params
        if isinstance(option, click.Option) and option.name not in shared
    ]
    parts = [
        f"## {name}",
        f"`lakesql {usage}`",
        "\n\n".join(paragraphs(command.help or "")),
    ]
    if rows:
        parts.append(table(("Option", "Default", "Meaning"), rows))
    return "\n\n".join(parts)


def option_names(option: click.Option) -> str:
    """`--limit N` with its short form."""
    long_first = sorted(option.opts, key=len, reverse=True)
    names = ", ".join(f"`{name}`" for name in (*long_first, *option.secondary_opts))
    if isinstance(option.type, click.Choice):
        return f"{names}: {', '.join(f'`{choice}`' for choice in option.type.choices)}"
    return names


def default_of(option: click.Option) -> str:
    """The default that `--help` shows."""
    return f"`{option.default}`" if option.show_default else ""


def selector_methods() -> str:
    """The selector methods by their names."""
    return ", ".join(f"`{name}:`" for name in sorted([*METHODS, SELECTOR]))


def template_names() -> str:
    """The names that templates see, and what they can do with values."""
    lists = {
        "Names": SEVEN,
        "Filters": FILTERS,
        "Tests": TESTS,
        "Methods of texts, lists and mappings": method_names(),
    }
    return "\n".join(
        f"- {title}: {', '.join(f'`{name}`' for name in sorted(names))}"
        for title, names in lists.items()
    )


def method_names() -> set[str]:
    """Names of the methods that values have in templates."""
    return {key if isinstance(key, str) else key[-1] for key in VALUE_METHODS}


def setting_table(settings: Mapping[str, str]) -> str:
    """Settings and their values."""
    return table(
        ("Setting", "Value"),
        [(f"`{name}`", f"`{value}`") for name, value in settings.items()],
    )


def record_table() -> str:
    """The fields of `_record`."""
    return table(
        ("Field", "Type"),
        [(f"`{name}`", f"`{kind}`") for name, kind in RECORD_FIELDS.items()],
    )


def dead_letter_table() -> str:
    """The columns of a dead-letter table."""
    rows = [
        (f"`{column.name}`", f"`{str(column.type).lower()}`", column.comment)
        for column in DEAD_LETTER_COLUMNS
    ]
    return table(("Column", "Type", "Meaning"), rows)


def threshold_table() -> str:
    """From which figures on a table is watched, or ill."""
    rows = [
        (f"`{figure}`", bound_text(figure, bound.watch), bound_text(figure, bound.ill))
        for figure, bound in USUAL_BOUNDS.items()
    ]
    return table(("Figure", "watch above", "ill above"), rows)


def bound_text(figure: str, value: float) -> str:
    """A bound in the unit of its figure."""
    if math.isinf(value):
        return "never"
    if figure.endswith("_ratio"):
        return percent(value)
    if figure == "metadata_bytes":
        return size(value)
    return duration(round(value)) if figure == "compaction_lag" else f"{value:g}"


def metric_table(metrics: Iterable[Metric]) -> str:
    """Metrics by their names."""
    return table(
        ("Metric", "Type", "Meaning"),
        [(f"`{each.name}`", each.kind, each.doc) for each in metrics],
    )


def event_table() -> str:
    """The events of a run, as they stand in lines of JSON."""
    rows = []
    for kind in typing.get_args(Event):
        meaning, *more = paragraphs(kind.__doc__ or "")
        names = [f"`{field.name}`" for field in fields(kind) if field.name != "at_ms"]
        rows.append(
            (f"`{event_name(kind)}`", " ".join((meaning, *more)), ", ".join(names))
        )
    return table(("Event", "Meaning", "Fields"), rows)


# --- text


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar in a cell is written so that it stays in it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
        for line in lines
    )


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]


def sentence(text: str) -> str:
    """The text with a full stop."""
    return text if text.endswith((".", "…")) or not text else f"{text}."


def spell(kind: Kind, word: str) -> str:
    """A word as one types it: those of the command line have hyphens."""
    if kind == "option":
        return f"{'-' if len(word) == 1 else '--'}{word.replace('_', '-')}"
    if kind == "function":
        return f"{word.upper()}()"
    if kind in ("statement", "clause"):
        return (
            word.upper()
            .replace("_", " ")
            .replace("MATCH ", "MATCH_")
            .replace("SYSTEM ", "SYSTEM_")
        )
    return word.replace("_", "-") if kind == "command" else word


WORD_TITLES: Mapping[Kind, str] = {
    "command": "Commands",
    "option": "Options of commands",
    "selector": "Methods of `--select`",
    "config": "Options of `config(...)`",
    "mode": "Values of `mode`",
    "template": "In templates",
    "file": "Sections of a properties file",
    "model": "Keys of a model in a properties file",
    "column": "Keys of a column in a properties file",
    "stream": "Keys of a stream",
    "target": "Keys of a target in profiles.yml",
    "settings": "Settings of the project",
    "type": "Types of columns",
    "statement": "Statements in the place of a SELECT",
    "clause": "Clauses of a SELECT",
    "function": "Functions",
    "name": "Columns that are there by themselves",
}


def word_sections() -> str:
    """The words of other tools by where they stand, those with one answer in one
    row."""
    parts = []
    for kind, title in WORD_TITLES.items():
        asked: dict[str, list[str]] = {}
        for word, said in read_words()[kind].items():
            asked.setdefault(said.replace("<", "&lt;"), []).append(
                f"`{spell(kind, word)}`"
            )
        parts.append(
            f"## {title}\n\n{table(('Word', 'In lakesql'), [(', '.join(w), said) for said, w in asked.items()])}"
        )
    return "\n\n".join(parts)


def verdict_table() -> str:
    """The verdicts of a plan."""
    return table(
        ("Verdict", "Means"), [(f"`{name}`", MEANINGS[name]) for name in VERDICTS]
    )


def cause_table() -> str:
    """The causes of a plan's reasons that are conditions of no error."""
    return table(
        ("Condition", "Means"),
        [(f"`{name}`", meaning) for name, meaning in sorted(CAUSES.items())],
    )


def module_sections() -> str:
    """The packages, each with a table of its modules and what each decides: the first
    sentence of its docstring."""
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    return "\n\n".join(_modules_of(folder) for folder in folders)


def _modules_of(folder: Path) -> str:
    name = folder.relative_to(PACKAGE.parent).as_posix()
    rows = [
        f"## `{name}/`",
        "",
        _first_sentence(folder / "__init__.py"),
        "",
        "| Module | What it decides |",
        "| --- | --- |",
    ]
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            rows.append(f"| `{path.name}` | {_first_sentence(path)} |")
    return "\n".join(rows) if len(rows) > 6 else "\n".join(rows[:3])


def _first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]


SECTIONS: Mapping[str, Callable[[], str]] = {
    "modules": module_sections,
    "lint-rules": lint_rules,
    "lint-settings": lambda: option_table(fields_of(LintSettings)),
    "lint-streams": lint_streams,
    "config": config_sections,
    "maintenance": maintenance_sections,
    "properties": properties_table,
    "unit-tests": unit_test_sections,
    "data-tests": data_test_sections,
    "expectations": expectation_sections,
    "column-properties": lambda: option_table(fields_of(ColumnProperties)),
    "freshness": lambda: option_table(fields_of(Freshness)),
    "thresholds": threshold_table,
    "table-metrics": lambda: metric_table(
        [*TABLE_STATES, *(metric for metric, _ in TABLE_METRICS)]
    ),
    "run-metrics": lambda: metric_table(RUN_METRICS),
    "template": template_names,
    "table-properties": lambda: setting_table(DEFAULT_PROPERTIES),
    "partitioned-append-properties": lambda: setting_table(
        PARTITIONED_APPEND_PROPERTIES
    ),
    "partitioned-upsert-properties": lambda: setting_table(
        PARTITIONED_MERGE_PROPERTIES
    ),
    "settings": lambda: option_table(fields_of(Settings)),
    "paths": lambda: option_table(fields_of(Paths)),
    "seed": lambda: option_table(fields_of(SeedOptions)),
    "seed-column": lambda: option_table(fields_of(SeedColumnOptions)),
    "seed-settings": lambda: option_table(fields_of(SeedSettings)),
    "stream": lambda: option_table(fields_of(_StreamOptions)),
    "group": lambda: option_table(fields_of(Tables)),
    "group-config": lambda: option_table(fields_of(GroupConfig)),
    "source-table": lambda: option_table(fields_of(_SourceTableOptions)),
    "column": lambda: option_table(fields_of(_ColumnOptions)),
    "watermark": lambda: option_table(fields_of(Watermark)),
    "sensitive-words": lambda: (
        ", ".join(f"`{word}`" for word in sorted(SENSITIVE_WORDS)) + "."
    ),
    "notifications": lambda: option_table(fields_of(Notifications)),
    "csv": lambda: option_table(fields_of(Csv)),
    "record": record_table,
    "dead-letters": dead_letter_table,
    "target": target_table,
    "spark": lambda: option_table(
        field for field in fields_of(Spark) if field.name != "places"
    ),
    "retries": lambda: option_table(fields_of(Retries)),
    "catalog": lambda: option_table(
        field
        for field in fields_of(Catalog)
        if field.name not in ("properties", "place")
    ),
    "connections": connection_sections,
    "lineage": lineage_sections,
    "session": lambda: setting_table(DEFAULTS),
    "local-session": lambda: setting_table(LOCAL_DEFAULTS),
    "conditions": condition_list,
    "events": event_table,
    "commands": command_sections,
    "methods": selector_methods,
    "verdicts": verdict_table,
    "causes": cause_table,
    "words": word_sections,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
