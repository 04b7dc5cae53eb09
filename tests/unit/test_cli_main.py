from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import click
import pytest

from lakesql import __version__
from lakesql.cli.main import COMMANDS, cli
from lakesql.cli.options import Given, expand_several
from tests.cases import each_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(parsed_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop whose files have been read, and nothing else done to it, and the working
    directory in it."""
    shutil.copytree(
        parsed_shop, tmp_path / "shop", ignore=shutil.ignore_patterns("compiled*")
    )
    monkeypatch.chdir(tmp_path / "shop")
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_"):
            monkeypatch.delenv(name)
    return tmp_path / "shop"


def conditions(stderr: str) -> list[str]:
    """The conditions that were reported, as JSON lines say them."""
    return [
        line["condition"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "problem"
    ]


# The group


def test_version_prints_the_packages_version(run: Run) -> None:
    assert run("--version") == (0, f"lakesql {__version__}\n", "")


def test_help_names_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"\n  {command} " in out for command in COMMANDS)


@each_of("command", COMMANDS)
def test_the_list_of_commands_says_what_their_own_help_says_first(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert COMMANDS[command] == found.get_short_help_str(limit=1_000)


def test_the_help_imports_no_command() -> None:
    program = "import sys; from lakesql.cli.main import run_command; run_command(['--help']); print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = ended.stdout.splitlines()[-1].split()
    assert {name for name in imported if name.startswith("lakesql.")} <= {
        "lakesql.cli",
        *(f"lakesql.cli.{name}" for name in ("main", "options", "report")),
        *(
            f"lakesql.{name}"
            for name in ("clock", "conditions", "errors", "secrets", "words")
        ),
    }


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    assert run() == run("--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_that_lists_the_common_options(
    run: Run, command: str
) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert all(
        f" {name} " in out
        for name in (
            "--target",
            "--project-dir",
            "--profiles-dir",
            "--vars",
            "--log-format",
        )
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["lss"],
        ["ls", "--slect", "x"],
        ["ls", "--output", "xml"],
        ["show"],
        ["--log-format", "xml", "ls"],
        ["ls", "orders"],
        ["run", "--limit", "1"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(
    run: Run, arguments: Sequence[str]
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error[usage]\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--nope", "--log-format", "json"],
        ["ls", "--log-format", "json", "--nope"],
        ["ls", "--log-format=json", "--nope"],
        ["--nope", "--log-format", "json", "ls"],
        ["--log-format", "json", "ls", "--nope"],
        ["show", "--log-format", "json"],
        ["show", "orders", "--limit", "x", "--log-format=json"],
    ],
)
def test_a_usage_error_is_json_where_json_is_asked_for(
    run: Run, arguments: Sequence[str]
) -> None:
    code, out, err = run(*arguments)
    assert (code, out, conditions(err)) == (2, "", ["usage"])


# Options


def test_common_options_stand_before_or_after_the_command(run: Run, shop: Path) -> None:
    (shop / "profiles.yml").rename(shop.parent / "profiles.yml")
    assert run("ls")[0] == 2
    before = run("--profiles-dir", "..", "ls")
    assert before[0] == 0
    assert run("ls", "--profiles-dir", "..") == before


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("ls", option)
            for option in (
                "--target",
                "-t",
                "--vars",
                "--log-format",
                "--project-dir",
                "--profiles-dir",
            )
        ),
        *(
            ("ls", option)
            for option in ("--target=", "--project-dir=", "--profiles-dir=")
        ),
        ("--target=", "ls"),
        ("ls", "--target", ""),
    ],
)
def test_an_option_without_its_value_is_refused(
    run: Run, shop: Path, arguments: tuple[str, ...]
) -> None:
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    (option,) = (word.strip("=") for word in arguments if word.startswith("-"))
    assert "error[usage]" in errors and option in errors


def test_an_option_after_the_command_wins(run: Run, shop: Path) -> None:
    assert run("--target", "nowhere", "ls", "--target", "dev")[0] == 0
    code, _, err = run(
        "--target", "dev", "--log-format", "json", "ls", "--target", "nowhere"
    )
    assert (code, conditions(err)) == (2, ["unknown-target"])


def test_the_environment_gives_options_and_the_command_line_wins(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESQL_TARGET", "nowhere")
    monkeypatch.setenv("LAKESQL_LOG_FORMAT", "json")
    assert conditions(run("ls")[2]) == ["unknown-target"]
    assert run("--target", "dev", "ls")[0] == 0
    assert run("ls", "-t", "dev")[0] == 0


def test_the_project_is_found_upwards_or_named(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = run("ls")
    monkeypatch.chdir(shop / "models" / "reports")
    assert run("ls") == here
    monkeypatch.chdir(shop.parent)
    assert run("ls", "--project-dir", "shop") == here
    monkeypatch.setenv("LAKESQL_PROJECT_DIR", str(shop))
    assert run("ls") == here


@pytest.mark.parametrize("text", ["{big_order: 7}", '{"big_order": 7}', "big_order: 7"])
def test_vars_are_yaml_or_json(run: Run, shop: Path, text: str) -> None:
    _, out, _ = run("compile", "-s", "order_states", "--vars", text)
    assert "o.amount >= 7 AS is_big" in out


@pytest.mark.parametrize("command", ["parse", "ls", "compile", "docs", "run"])
@pytest.mark.parametrize("text", ["{big_oder: 7}", "{big_order:7}", "{BIG_ORDER: 7}"])
def test_vars_that_nothing_reads_are_refused(
    run: Run, shop: Path, command: str, text: str
) -> None:
    code, _, err = run("--log-format", "json", command, "--vars", text)
    assert (code, conditions(err)) == (2, ["bad-vars"])


@pytest.mark.parametrize("text", ["[1]", "7", "{a: 1", "!!python/name:os.system x"])
def test_vars_that_are_no_mapping_are_refused(run: Run, shop: Path, text: str) -> None:
    code, _, err = run("--log-format", "json", "ls", "--vars", text)
    assert (code, conditions(err)) == (2, ["bad-vars"])


@each_of(
    ("arguments", "expected"),
    [
        ("--select a b --exclude c d", "--select a --select b --exclude c --exclude d"),
        ("--select=a b -t dev", "--select=a --select b -t dev"),
        ("-s a -s b", "-s a -s b"),
        ("-t dev a", "-t dev a"),
        ("--select --exclude x", "--select --exclude x"),
        ("--select a -- b", "--select a -- b"),
        ("", ""),
    ],
)
def test_every_value_gets_the_name_of_its_option(arguments: str, expected: str) -> None:
    several = {"--select", "-s", "--exclude"}
    assert list(expand_several(arguments.split(), several)) == expected.split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "orders", "clicks"],
        ["--select", "orders clicks"],
        ["--select", "orders", "--select", "clicks"],
        ["-s", "orders", "-s", "clicks"],
        ["--select", "+checkouts", "orders", "--exclude", "checkouts", "stream:*"],
    ],
)
def test_several_words_mean_the_union(
    run: Run, shop: Path, arguments: Sequence[str]
) -> None:
    code, out, _ = run("ls", *arguments)
    assert (code, set(out.split())) == (0, {"shop.orders", "shop.clicks"})


def test_completion_names_models(shop: Path) -> None:
    def offered(*words: str) -> set[str]:
        from click.shell_completion import ShellComplete

        *before, incomplete = words
        completer = ShellComplete(cli, {"obj": Given()}, "lakesql", "_LAKESQL_COMPLETE")
        return {item.value for item in completer.get_completions(before, incomplete)}

    models = {
        "checkouts",
        "clicks",
        "customers",
        "order_states",
        "orders",
        "prices",
        "products",
    }
    models |= {
        "views_per_10_minutes",
        "visits_per_day",
        "revenue_per_day",
        "top_customers",
    }
    assert offered("ls", "--select", "") == models
    assert offered("ls", "--select", "order") == {"order_states", "orders"}
    assert offered("ls", "--select", "clicks", "order") == {"order_states", "orders"}
    assert offered("ls", "--select", "+ord") == {"+order_states", "+orders"}
    assert offered("show", "cl") == {"clicks"}
    assert offered("cl") == {"clean"}
    assert "--exclude" in offered("ls", "--select", "clicks", "--e")
    settings = shop / "pyproject.toml"
    # as some editors begin a file
    settings.write_bytes(b"\xef\xbb\xbf" + settings.read_bytes())
    assert offered("show", "cl") == {"clicks"}
    settings.write_bytes(b"\xff")
    assert offered("show", "cl") == set()


# Errors


BROKEN = "{{ config(mode='append', keyz=1) }}\nSELECT view_id FROM {{ stream('page_viewz') }}\n"


def test_every_problem_is_shown_with_its_line(run: Run, shop: Path) -> None:
    (shop / "models" / "clicks.sql").write_text(BROKEN)
    (shop / "models" / "orders.sql").write_text("{{ config(mode='upsert') }}\nSELECT 1")
    code, out, err = run("compile")
    assert (code, out) == (2, "")
    heads = [line for line in err.splitlines() if line.startswith("error[")]
    assert heads == [
        "error[unknown-option] models/clicks.sql:1:26",
        "error[missing-option] models/orders.sql:1:4",
    ]
    assert (
        "  1 | {{ config(mode='append', keyz=1) }}\n    |                          ^\n"
        in err
    )


def test_the_line_is_found_from_another_directory(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "models" / "clicks.sql").write_text(BROKEN)
    monkeypatch.chdir(shop.parent)
    assert (
        "  1 | {{ config(mode='append', keyz=1) }}\n"
        in run("ls", "--project-dir", "shop")[2]
    )


def test_each_problem_is_a_json_line_with_its_place(run: Run, shop: Path) -> None:
    (shop / "models" / "clicks.sql").write_text(BROKEN)
    code, out, err = run("ls", "--log-format", "json")
    assert (code, out) == (2, "")
    (problem,) = map(json.loads, err.splitlines())
    assert problem["condition"] == "unknown-option"
    assert problem["place"] == {"path": "models/clicks.sql", "line": 1, "column": 26}
    assert set(problem) == {"event", "at", "condition", "what", "why", "fix", "place"}
    datetime.strptime(problem["at"], "%Y-%m-%dT%H:%M:%S.%fZ")


def test_each_json_line_of_stderr_says_when(run: Run, shop: Path) -> None:
    for arguments in (
        ["ls", "-s", "nothing"],
        ["--no-such-option"],
        ["show", "orders"],
        ["dorp"],
    ):
        _, _, err = run("--log-format", "json", *arguments)
        assert err and all("at" in json.loads(line) for line in err.splitlines())


def test_what_a_file_says_cannot_command_the_terminal(run: Run, shop: Path) -> None:
    (shop / "models" / "clicks.sql").write_text(
        "{{ config(mode='\x1b[2J') }}\nSELECT 1"
    )
    assert "\x1b" not in run("ls")[2]


def test_an_error_of_ours_shows_its_trace_under_debug_only(
    run: Run, shop: Path
) -> None:
    assert "Traceback" not in run("ls", "-t", "nowhere")[2]
    assert "Traceback" in run("--debug", "ls", "-t", "nowhere")[2]
    assert "Traceback" in run("ls", "-t", "nowhere", "--debug")[2]


class Unforeseen(click.ParamType[str]):
    """A type of option that fails in a way nobody has foreseen, as a defect of lakesql
    would."""

    name = "unforeseen"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        raise self.error


@pytest.mark.parametrize(("flags", "traced"), [([], False), (["--debug"], True)])
def test_a_defect_is_reported_in_one_problem(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: list[str], traced: bool
) -> None:
    monkeypatch.setattr(
        cli,
        "params",
        [
            *cli.params,
            click.Option(["--break"], type=Unforeseen(RuntimeError("oh no"))),
        ],
    )
    code, out, err = run(*flags, "--break", "x", "ls")
    assert (code, out) == (1, "")
    assert ("Traceback" in err, err.count("error[internal]")) == (traced, 1)


def test_a_file_in_the_place_of_target_is_reported_as_not_accessible(
    run: Run, shop: Path
) -> None:
    shutil.rmtree(shop / "target")
    (shop / "target").write_text("a file where lakesql wants a folder")
    code, out, err = run("compile", "--log-format", "json")
    assert (code, out, conditions(err)) == (2, "", ["not-accessible"])


def test_ctrl_c_is_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cli,
        "params",
        [*cli.params, click.Option(["--break"], type=Unforeseen(KeyboardInterrupt()))],
    )
    code, out, err = run("--break", "x", "ls")
    assert (code, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize("module", ["pyspark", "pyiceberg.catalog", "py4j.protocol"])
def test_what_the_spark_extra_brings_is_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    missing = ModuleNotFoundError(f"No module named '{module}'", name=module)
    monkeypatch.setattr(
        cli,
        "params",
        [*cli.params, click.Option(["--break"], type=Unforeseen(missing))],
    )
    code, out, err = run("--log-format", "json", "--break", "x", "ls")
    assert (code, out, conditions(err)) == (2, "", ["spark-missing"])
    assert "py4j" not in err
