"""`lakesql forecast`: by what is said, by what tables that pyiceberg wrote tell, and by
what is assumed."""

from __future__ import annotations

import gzip
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakesql.catalog.connect import OpenCatalog
from tests.long_tables import Past, make_past
from tests.unit import test_status
from tests.unit.test_status import (
    SCHEMA,
    batches,
    conditions,
    hold,
    lake,
    lines,
    project,
    run,
    spoil,
    write,
)

__all__ = ["lake", "project", "run"]  # fixtures

Run = Callable[..., tuple[int, str, str]]
MINUTE = test_status.MINUTE
HOUR = ("--after", "1 hour")
"""A day, which is what a forecast takes otherwise, is thousands of commits for each
trigger of each model."""


def forecast_of(out: str, model: str = "a") -> dict[str, Any]:
    (found,) = (line for line in lines(out) if line["model"] == model)
    return found


def inputs(found: dict[str, Any]) -> dict[str, tuple[float, str]]:
    return {each["name"]: (each["value"], each["source"]) for each in found["inputs"]}


def by_trigger(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["trigger"]: each for each in found["triggers"]}


def configure(project: Path, model: str, config: str) -> None:
    text = f"{{{{ config({config}) }}}}\nSELECT id FROM {{{{ stream('events') }}}}\n"
    (project / "models" / f"{model}.sql").write_text(text)


def merges(count: int, *, gap_s: float = 60) -> list[Past]:
    """A merge every so often, each of a file of 100 rows, with a delete file of 20 rows
    in place of the last one's."""
    now = time.time_ns() // 1_000_000
    summary = {
        "added-delete-files": "1",
        "removed-delete-files": "0",
        "added-position-deletes": "20",
        "changed-partition-count": "1",
        "lakesql.model": "a",
    }
    ago = [round(gap_s * 1000 * number) for number in range(count, 0, -1)]
    return [
        Past(
            now - ago_ms,
            (1_000,),
            (100,),
            summary={**summary, "lakesql.batch": str(number)},
        )
        for number, ago_ms in enumerate(ago)
    ]


def compress_metadata(project: Path, lake: OpenCatalog, model: str) -> None:
    """What `write.metadata.compression-codec` `gzip` makes of a table's metadata
    file."""
    place = Path(
        lake.iceberg.load_table(("shop", model)).metadata_location.removeprefix(
            "file://"
        )
    )
    compressed = place.with_name(
        place.name.replace(".metadata.json", ".gz.metadata.json")
    )
    compressed.write_bytes(gzip.compress(place.read_bytes()))
    with closing(sqlite3.connect(project / "catalog.db")) as catalog, catalog:
        move = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
        assert catalog.execute(move, (f"file://{compressed}", model)).rowcount == 1


@pytest.mark.checks
class TestAssumed:
    def test_every_assumption_is_said(self, run: Run, project: Path) -> None:
        configure(project, "a", "mode='upsert', keys='id', partition_by=['id']")
        code, out, err = run("forecast", "--offline", "--select", "a", *HOUR)
        assert (code, err) == (0, "")
        (said,) = (line for line in out.splitlines() if line.startswith("assumed: "))
        assert "100 rows/s" in said and "100 B" in said and "2.0 s" in said
        assert "partitions by id" in " ".join(out.split()) and "50 %" in " ".join(
            out.split()
        )

    def test_what_is_given_is_not_assumed(self, run: Run, project: Path) -> None:
        given = ("--rows-per-second", "2.5", "--row-bytes", "1.5 KB")
        found = forecast_of(
            run("forecast", "--offline", "-o", "json", *given, *HOUR)[1]
        )
        assert inputs(found)["rows_per_second"] == (2.5, "given")
        assert inputs(found)["row_bytes"] == (1536, "given")
        assert inputs(found)["batch_ms"] == (2000, "assumed")
        assert by_trigger(found)["1 minute"]["rows_per_commit"] == 150

    def test_it_takes_the_same_with_and_without_a_unit(
        self, run: Run, project: Path
    ) -> None:
        command = ("forecast", "--offline", "-o", "json", *HOUR)
        texts = {
            run(*command, "--row-bytes", text)[1] for text in ("2048", "2 KB", "2kb")
        }
        assert len(texts) == 1

    def test_the_commits_of_a_day_are_those_of_the_trigger(
        self, run: Run, project: Path
    ) -> None:
        configure(
            project, "a", "mode='append', trigger='90 seconds', maintenance=False"
        )
        found = by_trigger(forecast_of(run("forecast", "--offline", "-o", "json")[1]))
        assert {
            name: each["unmaintained"]["commits"] for name, each in found.items()
        } == {
            "10 seconds": 8640,
            "30 seconds": 2880,
            "1 minute": 1440,
            "90 seconds": 960,
            "5 minutes": 288,
            "15 minutes": 96,
            "1 hour": 24,
        }
        assert [name for name, each in found.items() if each["is_own"]] == [
            "90 seconds"
        ]
        assert all(each["maintained"] is None for each in found.values())
        assert found["1 minute"]["freshness_ms"] == 62_000

    def test_maintenance_leaves_few_files(self, run: Run, project: Path) -> None:
        small = "maintenance={'rewrite_data_files': {'small_files': 9}}"
        configure(
            project, "a", f"mode='append', partition_by=['bucket(4, id)'], {small}"
        )
        own = by_trigger(forecast_of(run("forecast", "--offline", "-o", "json")[1]))[
            "1 minute"
        ]
        assert own["unmaintained"]["data_files"] == 4 * 1440
        most = own["maintained"]["most"]["data_files"]
        assert 4 * (9 + 1) < most <= 4 * (9 + 5), (
            "new ones, and those that a rewrite has left"
        )
        assert own["maintained"]["commits"] > own["maintained"]["batches"] == 1440

    def test_few_rows_make_few_commits(self, run: Run, project: Path) -> None:
        arguments = (
            "forecast",
            "--offline",
            "-o",
            "json",
            "--rows-per-second",
            "0.01",
            "--after",
            "1 hour",
        )
        found = by_trigger(forecast_of(run(*arguments)[1]))
        assert found["10 seconds"]["unmaintained"]["commits"] == 36
        assert found["10 seconds"]["freshness_ms"] == 102_000

    def test_a_trigger_by_which_the_model_falls_behind_is_not_the_cheapest(
        self, run: Run, project: Path
    ) -> None:
        hold(project, a="warn_after: 2 hours")
        stream = project / "streams" / "events.yml"
        stream.write_text(
            stream.read_text().replace("columns:", "max_per_batch: 40000, columns:")
        )
        out = run(
            "forecast", "--offline", "-o", "json", "--rows-per-second", "100", *HOUR
        )[1]
        found = by_trigger(forecast_of(out))
        assert [name for name, each in found.items() if each["is_behind"]] == [
            "15 minutes",
            "1 hour",
        ]
        assert [name for name, each in found.items() if each["is_cheapest"]] == [
            "5 minutes"
        ]
        stream.write_text(stream.read_text().replace("40000", "unlimited"))
        found = by_trigger(
            forecast_of(run("forecast", "--offline", "-o", "json", *HOUR)[1])
        )
        assert [name for name, each in found.items() if each["is_cheapest"]] == [
            "1 hour"
        ]

    def test_a_model_that_ends_is_taken_to_run_every_hour(
        self, run: Run, project: Path
    ) -> None:
        configure(project, "a", "mode='append', trigger='available_now'")
        found = forecast_of(run("forecast", "--offline", "-o", "json")[1])
        assert inputs(found)["interval_ms"] == (3_600_000, "assumed")
        assert by_trigger(found)["available_now"]["unmaintained"]["commits"] == 24

    def test_nothing_is_made_where_nothing_is(self, run: Run, project: Path) -> None:
        assert run("forecast", *HOUR)[0] == 0
        assert not (project / "catalog.db").exists()


class TestFresh:
    @pytest.mark.parametrize(
        ("limits", "cheapest"),
        [
            ("warn_after: 5 minutes", "1 minute"),
            ("warn_after: 6 minutes, error_after: 1 day", "5 minutes"),
            ("error_after: 20 minutes", "15 minutes"),
            ("warn_after: 12 seconds", "10 seconds"),
            ("warn_after: 5 seconds", None),
            ("max_average_small_files: 5", None),
        ],
    )
    def test_the_cheapest_trigger_that_is_fresh_is_marked(
        self, run: Run, project: Path, limits: str, cheapest: str | None
    ) -> None:
        hold(project, a=limits)
        found = by_trigger(
            forecast_of(run("forecast", "--offline", "-o", "json", *HOUR)[1])
        )
        assert [name for name, each in found.items() if each["is_cheapest"]] == (
            [cheapest] if cheapest else []
        )
        fresh = [each["is_fresh"] for each in found.values()]
        assert (
            fresh == sorted(fresh, reverse=True)
            if "after" in limits
            else set(fresh) == {None}
        )
        rows = [
            line
            for line in run("forecast", "--offline", "-s", "a", *HOUR)[1].splitlines()
            if "cheapest" in line
        ]
        assert [row.split("  ")[0] for row in rows] == ([cheapest] if cheapest else [])


@pytest.mark.checks
class TestMeasured:
    def test_what_the_last_commits_tell_takes_the_place_of_assumptions(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        configure(project, "a", "mode='upsert', keys='id', maintenance=False")
        make_past(lake, ("shop", "a"), SCHEMA, merges(21, gap_s=30))
        found = forecast_of(run("forecast", "-o", "json", "-s", "a")[1])
        said = inputs(found)
        assert said["rows_per_second"][1] == "measured" and said["rows_per_second"][
            0
        ] == pytest.approx(100 / 30)
        assert said["row_bytes"] == (10, "measured")
        assert said["commit_deleted"] == (20, "measured") and said["commits"] == (
            21,
            "measured",
        )
        assert said["batch_ms"][1] == "assumed", "no commit knows its newest event"
        assert "replaced_ratio" not in said
        assert (
            found["now"]["data_files"],
            found["now"]["delete_files"],
            found["now"]["snapshots"],
        ) == (21, 21, 21)
        minute = by_trigger(found)["1 minute"]
        assert minute["rows_per_commit"] == pytest.approx(200)
        assert minute["unmaintained"]["data_files"] == 21 + 1440
        assert minute["unmaintained"]["snapshots"] == 21 + 1440
        assert minute["unmaintained"]["delete_files"] == pytest.approx(
            21 + 1440, rel=0.01
        )

    def test_what_is_given_goes_over_what_is_measured(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(3, 2, 1))
        said = inputs(
            forecast_of(
                run(
                    "forecast", "-o", "json", "-s", "a", "--rows-per-second", "7", *HOUR
                )[1]
            )
        )
        assert said["rows_per_second"] == (7, "given")
        assert said["row_bytes"] == (10, "measured")

    def test_metadata_now_is_what_status_says(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(*range(150, 0, -1)))
        (status,) = lines(run("status", "-s", "a", "-o", "json")[1])
        found = forecast_of(
            run("forecast", "-s", "a", "-o", "json", "--after", "1 second")[1]
        )
        assert found["now"]["metadata_bytes"] == status["figures"]["metadata_bytes"]
        own = by_trigger(found)["1 minute"]["unmaintained"]
        assert own["metadata_bytes"] == pytest.approx(
            found["now"]["metadata_bytes"], rel=0.01
        )

    def test_a_compressed_metadata_file_grows_as_it_is_compressed(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        configure(
            project,
            "a",
            "mode='append', maintenance={'expire_snapshots': {'max_snapshots': 50}}",
        )
        make_past(lake, ("shop", "a"), SCHEMA, batches(*range(300, 0, -1)))
        command = ("forecast", "-s", "a", "-o", "json", "--after", "1 hour")
        plain = forecast_of(run(*command)[1])
        compress_metadata(project, lake, "a")
        found = forecast_of(run(*command)[1])
        now = found["now"]["metadata_bytes"]
        assert now < plain["now"]["metadata_bytes"]
        for name, each in by_trigger(found).items():
            before = by_trigger(plain)[name]
            grown = each["unmaintained"]["metadata_bytes"] - now
            assert (
                grown
                < before["unmaintained"]["metadata_bytes"]
                - plain["now"]["metadata_bytes"]
            ), name
            for growth in ("unmaintained", "maintained"):
                assert (
                    0
                    < each[growth]["metadata_bytes"]
                    < before[growth]["metadata_bytes"]
                ), name
                assert (
                    0
                    < each[growth]["metadata_written_bytes"]
                    < before[growth]["metadata_written_bytes"]
                ), name

    def test_latency_counts_only_of_a_model_that_is_not_behind(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(3, 2, 1, latency_s=0.5))
        make_past(lake, ("shop", "b"), SCHEMA, batches(3, 2, 1, latency_s=500))
        out = run("forecast", "-o", "json", *HOUR)[1]
        assert inputs(forecast_of(out))["batch_ms"] == (500, "measured")
        assert inputs(forecast_of(out, "b"))["batch_ms"] == (2000, "assumed")

    def test_events_that_arrive_late_do_not_make_batches_long(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        hold(project, a="warn_after: 6 minutes")
        make_past(
            lake, ("shop", "a"), SCHEMA, batches(*range(100, 0, -5), latency_s=242)
        )
        out = run("forecast", "-s", "a", "-o", "json", *HOUR)[1]
        found = by_trigger(forecast_of(out))
        said = inputs(forecast_of(out))
        assert (said["batch_ms"], said["delay_ms"]) == (
            (2000, "assumed"),
            (240_000, "measured"),
        )
        own = {
            name: (each["interval_ms"], each["freshness_ms"])
            for name, each in found.items()
        }
        assert own["10 seconds"] == (10_000, 252_000)
        assert own["5 minutes"] == (300_000, 542_000)
        assert [name for name, each in found.items() if each["is_cheapest"]] == [
            "1 minute"
        ]
        text = " ".join(run("forecast", "-s", "a", *HOUR)[1].split())
        assert "the newest event is 4 min 00 s old when a batch begins" in text
        assert "assumed: a batch takes 2.0 s" in text

    def test_one_commit_tells_no_rate(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(3))
        said = inputs(forecast_of(run("forecast", "-s", "a", "-o", "json", *HOUR)[1]))
        assert (said["rows_per_second"][1], said["row_bytes"][1]) == (
            "assumed",
            "measured",
        )

    @pytest.mark.parametrize("past", [[], [Past(1, ())]])
    def test_a_table_without_rows_is_assumed(
        self, run: Run, project: Path, lake: OpenCatalog, past: list[Past]
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, past)
        code, out, _ = run("forecast", "-s", "a", "-o", "json", *HOUR)
        assert code == 0 and inputs(forecast_of(out))["rows_per_second"] == (
            100,
            "assumed",
        )

    @pytest.mark.parametrize("width", [60, 80, 200])
    def test_it_fits_the_terminal(
        self,
        run: Run,
        project: Path,
        lake: OpenCatalog,
        monkeypatch: pytest.MonkeyPatch,
        width: int,
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        hold(project, a="warn_after: 5 minutes")
        make_past(lake, ("shop", "a"), SCHEMA, batches(*range(100, 0, -5)))
        out = run("forecast", *HOUR)[1]
        assert max(map(len, out.splitlines())) <= width
        assert "data files" in out and "metadata written" in out


class TestBadInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("--rows-per-second", "0"),
            ("--rows-per-second", "-1"),
            ("--rows-per-second", "nan"),
            ("--rows-per-second", "inf"),
            ("--rows-per-second", "many"),
            ("--row-bytes", "0"),
            ("--row-bytes", "-5"),
            ("--row-bytes", "5 pounds"),
            ("--row-bytes", ""),
            ("--after", "soon"),
            ("--after", "0 seconds"),
            ("--after", "93 days"),
            ("--output", "xml"),
        ],
    )
    def test_an_option_that_makes_no_sense_is_a_usage_error(
        self, run: Run, project: Path, arguments: tuple[str, str]
    ) -> None:
        code, out, err = run(
            "--log-format", "json", "forecast", "--offline", *arguments
        )
        assert (code, out, conditions(err)) == (2, "", ["usage"])

    def test_a_selection_without_a_model_is_no_failure(
        self, run: Run, project: Path
    ) -> None:
        for word in ("tag:none", "resource_type:maintenance", "a.expire_snapshots"):
            code, out, err = run("forecast", "--select", word)
            assert (code, out) == (0, "") and "No model is selected" in err

    def test_a_table_that_cannot_be_read_hides_no_other(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        for model in "ab":
            make_past(lake, ("shop", model), SCHEMA, batches(2, 1))
        spoil(lake, "a")
        code, out, err = run("--log-format", "json", "forecast", "-o", "json", *HOUR)
        assert (code, [line["model"] for line in lines(out)]) == (1, ["b", "c"])
        assert conditions(err) == ["table-unreadable"]

    def test_an_unreachable_catalog_is_named_and_what_is_given_is_enough(
        self, run: Run, project: Path
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            write(
                project,
                f"{{name: lake, type: rest, uri: 'http://127.0.0.1:{closed.getsockname()[1]}'}}",
            )
            code, out, err = run(
                "--log-format", "json", "forecast", "-o", "json", *HOUR
            )
            assert (code, out, conditions(err)) == (1, "", ["catalog-unreachable"])
            given = ("--rows-per-second", "10", "--row-bytes", "50", *HOUR)
            code, out, err = run(
                "--log-format", "json", "forecast", "-o", "json", *given
            )
            assert (code, len(lines(out)), conditions(err)) == (
                1,
                3,
                ["catalog-unreachable"],
            )
            code, out, err = run(
                "--log-format", "json", "forecast", "-o", "json", "--offline", *given
            )
            assert (code, len(lines(out)), err) == (0, 3, "")


@pytest.mark.checks
def test_the_header_of_a_compiled_file_says_what_the_command_says_offline(
    run: Run, project: Path
) -> None:
    configure(
        project,
        "a",
        "mode='append', trigger='5 minutes', maintenance={'rewrite_data_files': {'small_files': 9}}",
    )
    own = by_trigger(forecast_of(run("forecast", "--offline", "-o", "json")[1]))[
        "5 minutes"
    ]
    header = " ".join(run("compile", "-s", "a")[1].replace("--   ", "").split())
    for growth, counts in (
        ("unmaintained", own["unmaintained"]),
        ("maintained", own["maintained"]["most"]),
    ):
        commits = own[growth]["commits"]
        assert (
            f"{commits:,} commits leave {counts['data_files']:,} data files" in header
        )
        assert (
            f"{counts['snapshots']:,} snapshots and {counts['metadata_bytes'] / 1e6:,.1f} MB"
            in header
        )
