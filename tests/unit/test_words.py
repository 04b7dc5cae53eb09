"""Words of other tools: each gets lakesql's word, wherever it is typed, and never one
that removes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import click
import pytest

from lakesql.cli.main import COMMANDS, REMOVING, cli, run_command
from lakesql.decode import fields_of
from lakesql.model.properties import ColumnProperties, ModelProperties
from lakesql.modes.all_modes import MODES
from lakesql.project.profiles import Target
from lakesql.project.settings import Settings
from lakesql.select.calls import COUNTS_OF
from lakesql.select.functions import TABLE_FUNCTIONS
from lakesql.stream.stream import _StreamOptions
from lakesql.stream.types import TYPE_NAMES, parse_type
from lakesql.template.reader import RESERVED
from lakesql.words import Kind, answer, read_words, suggest
from tests.cases import each_of
from tests.share import a_few

WORDS = read_words()
ANSWERS = sorted({said for words in WORDS.values() for said in words.values()})


@pytest.fixture
def shop(parsed_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(parsed_shop, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fixes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What a command that is refused tells to do."""
    assert run_command(["--log-format", "json", *arguments]) == 2
    return [json.loads(line)["fix"] for line in capsys.readouterr().err.splitlines()]


# The table


@each_of("said", ANSWERS)
def test_no_answer_is_a_command_that_removes(said: str) -> None:
    named = set(re.findall(r"`lakesql ([a-z]+)", said))
    assert named <= set(COMMANDS) - {*REMOVING, "rewind"}
    assert not re.search(
        r"--(full-refresh|accept-data-loss|allow-duplicates|replace|yes)", said
    )


@each_of("said", ANSWERS)
def test_an_answer_names_options_that_are_there(said: str) -> None:
    context = click.Context(cli, info_name="lakesql")
    commands = [
        cli,
        *filter(None, (cli.get_command(context, name) for name in COMMANDS)),
    ]
    known = {
        name
        for command in commands
        for option in command.params
        for name in option.opts + option.secondary_opts
    }
    assert set(re.findall(r"--[a-z][a-z-]+", said)) <= known | {"--help"}


def test_no_word_of_lakesqls_own_is_in_the_table() -> None:
    own: dict[Kind, set[str]] = {
        "command": set(COMMANDS),
        "config": {field.name for kind in MODES.values() for field in fields_of(kind)},
        "mode": {word for word, _ in MODES},
        "template": set(RESERVED),
        "model": {field.name for field in fields_of(ModelProperties)},
        "column": {field.name for field in fields_of(ColumnProperties)},
        "stream": {field.name for field in fields_of(_StreamOptions)},
        "target": {field.name for field in fields_of(Target)} - {"name"},
        "settings": {field.name for field in fields_of(Settings)},
        "type": set(TYPE_NAMES),
        "function": {*COUNTS_OF, *TABLE_FUNCTIONS},
    }
    assert {
        (kind, word)
        for kind, words in own.items()
        for word in words & WORDS[kind].keys()
    } == set()


def test_an_answered_type_is_sparks() -> None:
    written = [
        re.findall(r"Write ([a-z_]+(?:\(12,2\))?)", said)
        for said in WORDS["type"].values()
    ]
    assert all(len(found) == 1 for found in written)
    plain = {found[0] for found in written} - {"array", "struct"}
    assert {text for text in plain if parse_type(text) is None} == set()


def test_a_word_is_found_as_people_spell_it() -> None:
    for spelled in ("double precision", "DOUBLE-PRECISION", "Double_Precision"):
        assert answer("type", spelled) == "Write double."
    assert answer("option", "--event-time-start") and answer("command", "run-operation")
    assert answer("config", "keys") == ""
    assert suggest("config", "keyz", ["keys", "mode"]) == "Did you mean 'keys'?"


# Where they are typed


@pytest.mark.parametrize("word", a_few(sorted(WORDS["command"]), 12))
def test_a_command_of_another_tool_is_answered(
    capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert fixes(capsys, word.replace("_", "-")) == [WORDS["command"][word]]


@pytest.mark.parametrize(
    "typed", ["dorp", "dropp", "claen", "cleann", "remove", "buid", "re-build"]
)
def test_a_mistyped_command_suggests_none_that_removes(
    capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    (fix,) = fixes(capsys, typed)
    assert not set(re.findall(r"\w+", fix)) & set(REMOVING)


@pytest.mark.checks
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "-m", "orders"], "--select"),
        (["run", "--models", "orders"], "--select"),
        (["run", "--threads", "4"], "profiles.yml"),
        (["--threads", "4", "run"], "profiles.yml"),
        (["run", "--profile", "shop"], "--target"),
        (["ls", "--select", "source:orders"], "stream:orders"),
    ],
)
def test_an_option_of_another_tool_is_answered(
    shop: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    (fix,) = fixes(capsys, *arguments)
    assert named in fix


@pytest.mark.parametrize(
    ("template", "named"),
    a_few(
        [
            ("{{ source('raw', 'orders') }}", "stream('…')"),
            ("{% if is_incremental() %} x {% endif %}", "Leave it out"),
            ("{{ target.schema }}", "target.namespace"),
            ("{{ target['schema'] }}", "target.namespace"),
            ("{{ target.database }}", "target.catalog"),
            ("{{ this.schema }}", "whole name"),
            ("{{ dbt_utils.star(from=ref('customers')) }}", "macros/"),
            ("{{ dbt_utils.generate_surrogate_key(['a']) }}", "macros/"),
            ("{{ dbt_utils.get_column_values.x('a')() }}", "macros/"),
            ("{{ adapter.dispatch('x')() }}", "ref('…')"),
            ("{{ exceptions.raise_compiler_error('x') }}", "leave it out"),
            ("{{ modules.datetime.datetime.now() }}", "filters"),
            ("{{ config.get('x') }}", "var('…')"),
            ("{{ env_var('X') }}", "var('…')"),
            ("{% if execute %} x {% endif %}", "ref('…')"),
            ("{% do log('x') %}", "leave it out"),
            ("{% snapshot s %}{% endsnapshot %}", "scd2"),
            ("{{ run_query('SELECT 1') }}", "ref('…')"),
        ],
        5,
    ),
)
def test_a_name_of_dbts_templates_is_answered(
    shop: Path, capsys: pytest.CaptureFixture[str], template: str, named: str
) -> None:
    path = shop / "models" / "orders.sql"
    path.write_text(path.read_text() + template)
    assert any(named in fix for fix in fixes(capsys, "compile"))


def test_a_macro_of_the_projects_own_goes_before_the_table(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "macros" / "own.sql").write_text(
        "{% macro source(a) %}{{ a }}{% endmacro %}"
    )
    path = shop / "models" / "orders.sql"
    path.write_text(
        path.read_text().replace("SELECT", "SELECT {{ source(\"'a'\") }} AS a,")
    )
    assert run_command(["compile", "-s", "orders"]) == 0
    assert "'a' AS a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "text", "named"),
    a_few(
        [
            (
                "models/a.sql",
                "{{ config(materialized='incremental', unique_key='id') }}\nSELECT 1",
                ["mode=", "mode=", "keys="],
            ),
            (
                "models/a.sql",
                "{{ config(mode='upsert', keys=['a'], incremental_strategy='merge') }}\nSELECT 1",
                ["mode="],
            ),
            ("models/a.sql", "{{ config(mode='incremental') }}\nSELECT 1", ["upsert"]),
            (
                "models/a.sql",
                "{{ config(mode='append', schema='x') }}\nSELECT 1",
                ["namespace="],
            ),
            (
                "models/a.yml",
                "version: 2\nsources: []\n",
                ["leave the line out", "streams:"],
            ),
            ("models/a.yml", "models: [{name: orders, config: {}}]\n", ["config(…)"]),
            (
                "models/a.yml",
                "models: [{name: clicks, columns: [{name: x, data_type: int}]}]\n",
                ["cast"],
            ),
            (
                "streams/a.yml",
                "streams: [{name: a, tables: []}]\n",
                ["entry of its own"],
            ),
            (
                "streams/a.yml",
                "streams: [{name: a, topic: t, columns: {x: text}}]\n",
                ["Write string."],
            ),
        ],
        3,
    ),
)
def test_a_key_of_another_tool_is_answered(
    shop: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    named: list[str],
) -> None:
    (shop / file).write_text(text)
    said = fixes(capsys, "parse")
    assert all(any(word in fix for fix in said) for word in named), said


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("profiles.yml", "      threads: 2", "      schema: raw", "namespace"),
        ("profiles.yml", "      threads: 2", "      type: spark", "catalog"),
        (
            "pyproject.toml",
            'name = "shop"\n',
            'name = "shop"\nmodel-paths = ["m"]\n',
            "[tool.lakesql.paths]",
        ),
        ("pyproject.toml", 'tags = ["report"]', 'materialized = "table"', "mode="),
    ],
)
def test_a_setting_of_another_tool_is_answered(
    shop: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    before: str,
    after: str,
    named: str,
) -> None:
    text = (shop / file).read_text()
    assert before in text
    (shop / file).write_text(text.replace(before, after, 1))
    assert any(named in fix for fix in fixes(capsys, "parse"))


def test_a_project_of_dbts_is_told_where_its_settings_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: shop\n")
    monkeypatch.chdir(tmp_path)
    assert run_command(["--log-format", "json", "run"]) == 2
    (problem,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (problem["condition"], "[tool.lakesql]" in problem["why"]) == (
        "no-project",
        True,
    )


CLICKS = "{{ stream('clicks') }}"


@pytest.mark.parametrize(
    ("select", "named"),
    a_few(
        [
            (
                "SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS h FROM {} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)",
                "window(at",
            ),
            (
                "SELECT a FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(at), INTERVAL '1' HOUR))",
                "window(at",
            ),
            ("SELECT a FROM TUMBLE({}, at, INTERVAL '1 hour')", "window(at"),
            (
                "SELECT a FROM TABLE(HOP(TABLE {}, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))",
                "slide",
            ),
            (
                "SELECT a FROM TABLE(CUMULATE(TABLE {}, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '1' DAY))",
                "upsert",
            ),
            (
                "SELECT SESSION_START(at, INTERVAL '1' HOUR) AS s FROM {}",
                "session_window",
            ),
            (
                "SELECT a, count(*) AS n FROM {} WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY a",
                "window(at",
            ),
            (
                "SELECT a, count(*) AS n FROM {} WINDOW SESSION (60 SECONDS) GROUP BY a",
                "session_window",
            ),
            ("SELECT a, count(*) AS n FROM {} GROUP BY a EMIT CHANGES", "upsert"),
            ("SELECT a, count(*) AS n FROM {} GROUP BY a EMIT FINAL", "append"),
            (
                "SELECT a, count(*) AS n FROM {} GROUP BY a EMIT ON WINDOW CLOSE",
                "append",
            ),
            (
                "SELECT * FROM {} MATCH_RECOGNIZE "
                "(PARTITION BY a ORDER BY b MEASURES A.b AS b PATTERN (A) DEFINE A AS 1)",
                "lag()",
            ),
            (
                "SELECT c.a FROM {} AS c JOIN lake.s.t FOR SYSTEM_TIME AS OF c.at AS t ON t.a = c.a",
                "ref('…')",
            ),
            (
                "SELECT c.a FROM {0} AS c JOIN {0} AS d WITHIN 1 HOUR ON c.a = d.a",
                "BETWEEN",
            ),
            ("SELECT a FROM {} PARTITION BY a", "keys="),
            ("SELECT PROCTIME() AS p FROM {}", "current_timestamp()"),
            ("SELECT LATEST_BY_OFFSET(a) AS a FROM {}", "max_by"),
            ("SELECT ROWTIME AS t FROM {}", "_record.timestamp"),
            ("SELECT ROWKEY AS k FROM {}", "_record.key"),
            ("CREATE MATERIALIZED VIEW v AS SELECT a FROM {}", "materialized_view"),
            (
                "CREATE STREAM v WITH (kafka_topic = 'a') AS SELECT a FROM {}",
                "streams/",
            ),
            (
                "CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED, WATERMARK FOR at AS at) WITH ('connector' = 'k')",
                "alone",
            ),
            ("CREATE SINK s AS SELECT a FROM {} WITH (connector = 'iceberg')", "alone"),
            ("INSERT INTO t SELECT a FROM {}", "alone"),
            ("SELECT a FROM {}, UNNEST(b) AS t(x)", "explode"),
        ],
        6,
    ),
)
def test_a_word_of_streaming_sql_is_answered(
    shop: Path, capsys: pytest.CaptureFixture[str], select: str, named: str
) -> None:
    (shop / "models" / "new.sql").write_text(
        "{{ config(mode='append') }}\n"
        + select.replace("{0}", "{}").replace("{}", CLICKS)
    )
    assert any(named in fix for fix in fixes(capsys, "parse"))


@pytest.mark.parametrize(
    "select",
    [
        "SELECT count(*) OVER (PARTITION BY within ORDER BY emit) AS n, FROM {{ ref('orders') }}",
        "SELECT session, hop FROM {{ ref('orders') }} WHERE",
        "SELECT emit AS changes FROM {{ ref('orders') }} GROUP",
    ],
)
def test_a_column_of_such_a_name_is_no_word_of_another_tool(
    shop: Path, capsys: pytest.CaptureFixture[str], select: str
) -> None:
    (shop / "models" / "new.sql").write_text("{{ config(mode='table') }}\n" + select)
    assert not set(fixes(capsys, "parse")) & {
        *WORDS["clause"].values(),
        *WORDS["function"].values(),
    }
