from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isnan
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lakesql.catalog import seed_table
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import LakesqlError, ProfileError, ProjectError
from lakesql.events import Event, SeedFinished
from lakesql.names import SEED_PROPERTY, SEED_VERSION
from lakesql.project.files import first_record
from lakesql.run.seeds.check_seeds import check_seeds
from lakesql.run.seeds.seed import fill_seeds
from lakesql.seed.csv_records import read_records
from lakesql.seed.seed_values import NoValueError, find_zone, reader_of
from lakesql.stream.types import parse_type
from tests.cases import each_of

Run = Callable[..., tuple[int, str, str]]


# values


def value(text: str, kind: str, zone: str = "UTC") -> Any:
    parsed = parse_type(kind)
    read = reader_of(parsed, find_zone(zone)) if parsed is not None else None
    assert read is not None
    return read(text)


@each_of(
    ("text", "kind", "expected"),
    [
        (" a ", "string", " a "),
        ("TRUE", "boolean", True),
        ("false", "boolean", False),
        ("-128", "tinyint", -128),
        ("+32767", "smallint", 32767),
        ("007", "int", 7),
        (str(-(2**63)), "bigint", -(2**63)),
        ("1e3", "double", 1000.0),
        (".5", "float", 0.5),
        ("0.1", "float", 0.10000000149011612),
        ("-Inf", "double", float("-inf")),
        ("1.50", "decimal(3,2)", Decimal("1.50")),
        ("1.5000", "decimal(3,2)", Decimal("1.50")),
        ("12e1", "decimal(5,0)", Decimal(120)),
        ("0.0", "decimal", Decimal(0)),
        ("2026-3-1", "date", date(2026, 3, 1)),
        ("0001-01-01", "date", date(1, 1, 1)),
        ("2026-03-01", "timestamp", datetime(2026, 3, 1, tzinfo=UTC)),
        (
            "2026-03-01T10:20:30.5Z",
            "timestamp",
            datetime(2026, 3, 1, 10, 20, 30, 500_000, UTC),
        ),
        (
            "2026-03-01 10:20:30+02:00",
            "timestamp",
            datetime(2026, 3, 1, 8, 20, 30, tzinfo=UTC),
        ),
        ("2026-03-01 10:20", "timestamp_ntz", datetime(2026, 3, 1, 10, 20)),
    ],
)
def test_a_text_is_a_value_of_its_type(text: str, kind: str, expected: object) -> None:
    found = value(text, kind)
    assert found == expected and type(found) is type(expected)


@each_of(
    ("text", "kind"),
    [
        *(("yes", "boolean"), ("1", "boolean"), (" true", "boolean")),
        *(
            ("128", "tinyint"),
            ("32768", "smallint"),
            ("1.0", "int"),
            (str(2**63), "bigint"),
            ("1_000", "int"),
        ),
        *(
            ("１", "int"),
            ("1,5", "double"),
            ("1e400", "double"),
            ("1e39", "float"),
            ("1d", "double"),
            ("nan", "float"),
        ),
        *(
            ("1.555", "decimal(10,2)"),
            ("100", "decimal(2,0)"),
            ("1e-300", "decimal(38,38)"),
            ("1e30", "decimal(10,2)"),
        ),
        *(
            ("2026-02-30", "date"),
            ("2026", "date"),
            ("01.03.2026", "date"),
            ("2026-03-01T10:00", "date"),
        ),
        *(
            ("10:20", "timestamp"),
            ("2026-03-01 25:00", "timestamp"),
            ("1772359200", "timestamp"),
        ),
        *(
            ("2026-03-01 10:20:30.1234567", "timestamp"),
            ("2026-03-01 10:20:30Z", "timestamp_ntz"),
        ),
        *(
            ("0001-01-01 00:00+18:00", "timestamp"),
            ("2026-03-01 10:20+19:00", "timestamp"),
        ),
    ],
)
def test_a_text_that_is_no_value_is_refused(text: str, kind: str) -> None:
    with pytest.raises(NoValueError):
        value(text, kind)


def test_not_a_number_is_one_of_a_double() -> None:
    assert isnan(value("NaN", "double")) and isnan(value("NaN", "float"))


@each_of(
    ("text", "hour"),
    [
        ("2026-03-29 01:59", 0),
        ("2026-03-29 02:30", 1),
        ("2026-03-29 03:00", 1),
        ("2026-10-25 02:30", 0),
    ],
)
def test_a_time_without_a_zone_is_of_the_session_as_java_reads_it(
    text: str, hour: int
) -> None:
    """In the gap of a clock that is put forward it is as much later; of two hours of
    one name it is the first."""
    assert value(text, "timestamp", "Europe/Berlin").hour == hour


def test_a_zone_that_nobody_knows_is_refused() -> None:
    assert find_zone("+05:30").utcoffset(None) == find_zone("Asia/Kolkata").utcoffset(
        datetime(2026, 1, 1)
    )
    for name in ("Europe/Atlantis", "+19:00", "-18:01", "+02:60", "+02:99", "+٠٢:٠٠"):
        with pytest.raises(ProfileError, match="wrong-value"):
            find_zone(name)
    assert find_zone("-18:00").utcoffset(None) == timedelta(hours=-18)


# records


def records(text: str, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    return [
        (record.line, record.values)
        for record in read_records(text, delimiter, "s.csv")
    ]


def test_records_are_those_of_rfc_4180() -> None:
    text = (
        'a,b\r\n"1,5","say ""x"""\n"line 1\nline 2",\n\n   \n,\rlast,"'.removesuffix(
            ',"'
        )
        + ",z"
    )
    assert records(text) == [
        (1, ["a", "b"]),
        (2, ["1,5", 'say "x"']),
        (3, ["line 1\nline 2", ""]),
        (7, ["", ""]),
        (8, ["last", "z"]),
    ]


@pytest.mark.parametrize(
    ("text", "line"), [('a,b\n1,"2\n3,4\n', 2), ('a\n"x"y\n', 2), ('"a\n', 1)]
)
def test_quotes_that_are_not_closed_are_refused_at_their_record(
    text: str, line: int
) -> None:
    with pytest.raises(ProjectError) as caught:
        records(text)
    (problem,) = caught.value.problems
    assert (problem.condition, problem.place and problem.place.line) == (
        "seed-syntax",
        line,
    )


@pytest.mark.parametrize(
    "value", ['" "', '"\u2028"', '"\n"', "\xa0", "\x1f", '" \t"', '""']
)
def test_a_value_of_white_space_is_a_record(value: str) -> None:
    read = [
        record.values
        for record in read_records(f"v\nx\n{value}\n\n  \ny\n", ",", "s.csv")
    ]
    assert read == [["v"], ["x"], [value.strip('"')], ["y"]]


def test_a_value_has_its_place() -> None:
    text = 'a,b,c\n"x\ny, z",1,2\n'
    _, record = read_records(text, ",", "s.csv")
    places = [str(record.place_of(number, "s.csv", ",")) for number in range(4)]
    assert places == ["s.csv:2:1", "s.csv:3:7", "s.csv:3:9", "s.csv:3:10"]


def test_the_first_record_may_have_several_lines() -> None:
    assert first_record('a,"b\nc"\n1,2\n') == 'a,"b\nc"'
    assert first_record('a,"b\n1,2\n') == 'a,"b'
    assert first_record("") == "" and first_record("a\r\nb") == "a"


# a project


class Project:
    """A project without models to begin with, on a catalog in SQLite."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.write("pyproject.toml", '[tool.lakesql]\nname = "p"\n')
        uri, warehouse = (
            f"sqlite:///{directory}/catalog.db",
            str(directory / "warehouse"),
        )
        catalog = {"name": "lake", "type": "sql", "uri": uri, "warehouse": warehouse}
        self.target: dict[str, Any] = {
            "catalog": catalog,
            "namespace": "shop",
            "connections": {"broker": {"type": "recorded", "path": "r"}},
        }
        self.profile()
        self.write(
            "streams/s.yml",
            "streams: [{name: orders, connection: broker, topic: o, columns: {code: string}}]\n",
        )
        self.iceberg = SqlCatalog("lake", uri=uri, warehouse=warehouse)
        self.seed()

    def profile(self) -> None:
        self.write(
            "profiles.yml",
            json.dumps({"p": {"target": "dev", "outputs": {"dev": self.target}}}),
        )

    def write(self, path: str, text: str | bytes) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def seed(
        self, text: str | bytes = "code,area\nDE,357022\nFR,643801\n", columns: str = ""
    ) -> None:
        self.write("seeds/countries.csv", text)
        self.write(
            "seeds/seeds.yml",
            f"seeds: [{{name: countries{f', columns: {columns}' if columns else ''}}}]\n",
        )

    def fill(self, *, is_forced: bool = False) -> SeedFinished:
        """How the one seed has ended."""
        manifest = load_project(Options(project_dir=self.directory))
        events: list[Event] = []
        fill_seeds(manifest, ["countries"], events.append, is_forced=is_forced)
        (event,) = events
        assert isinstance(event, SeedFinished)
        return event

    @property
    def table(self) -> Table:
        return self.iceberg.load_table(("shop", "countries"))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return sorted(
            self.table.scan().to_arrow().to_pylist(),
            key=lambda row: str(row.get("code")),
        )


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    return Project(tmp_path)


def problems(project: Project) -> list[tuple[str, str]]:
    """The conditions of what is wrong with the project and its seeds, with their
    places."""
    try:
        manifest = load_project(Options(project_dir=project.directory))
        check_seeds(manifest, manifest.seeds)
    except LakesqlError as error:
        return [(problem.condition, str(problem.place)) for problem in error.problems]
    return []


TYPED = "{code: {type: string, required: true}, area: bigint}"


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        (
            "code,area\nDE,many\n,1\n",
            TYPED,
            [("seed-value", ":2:4"), ("seed-value", ":3:1")],
        ),
        ('code,area\n"D\nE",x\n', TYPED, [("seed-value", ":3:4")]),
        (
            "code,area\nDE\nFR,1,2\n",
            TYPED,
            [("seed-syntax", ":2:3"), ("seed-syntax", ":3:6")],
        ),
        ('code,area\n"DE,1\n', TYPED, [("seed-syntax", ":2")]),
        ("code\nDE\n", TYPED, [("seed-columns", "seeds/seeds.yml:1:10")]),
        ("code,area,x\n", TYPED, [("seed-columns", ":1:11")]),
        ("code,Code\n", "", [("duplicate-column", ":1:6")]),
        ("code,,a.b\n", "", [("bad-column-name", ":1:6"), ("bad-column-name", ":1:7")]),
        (
            "_lakesql_x,_file,_record\n",
            "",
            [("reserved-column", p) for p in (":1:1", ":1:12", ":1:18")],
        ),
        ("", "", [("seed-syntax", ":1")]),
        (
            "code,area\n",
            "{code: 'array<int>', area: binary}",
            [("wrong-type", "seeds/seeds.yml:1:44")] * 2,
        ),
        (b"code,area\nDE,1\n\xe4,2\n", "", [("not-text", ":3")]),
        ("code,area\n", "{code: string, area: {from: code, type: int}}", None),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_place(
    project: Project,
    text: str | bytes,
    columns: str,
    expected: list[tuple[str, str]] | None,
) -> None:
    project.seed(text, columns)
    found = problems(project)
    if expected is None:
        assert {condition for condition, _ in found} == {
            "seed-columns",
            "duplicate-column",
        }
        return
    assert [condition for condition, _ in found] == [
        condition for condition, _ in expected
    ]
    places = [
        place if place.startswith("seeds/") else f"seeds/countries.csv{place}"
        for _, place in expected
    ]
    if "wrong-type" not in dict(expected):
        assert [place for _, place in found] == places


def test_only_so_many_bad_values_are_told(project: Project) -> None:
    project.seed("code,area\n" + "DE,x\n" * 1000, TYPED)
    assert len(problems(project)) == 20


def test_names_are_told_apart(project: Project) -> None:
    project.write(
        "models/Countries.sql",
        "{{ config(mode='append') }}\nSELECT code FROM {{ stream('orders') }}\n",
    )
    project.write("seeds/more/countries.csv", "a\n")
    project.write(
        "seeds/more/more.yml", "seeds: [{name: nothing}, {name: countries}]\n"
    )
    project.write(
        "models/m.sql",
        "{{ config(mode='append', table='countries') }}\nSELECT code FROM {{ stream('orders') }}\n",
    )
    found = [condition for condition, _ in problems(project)]
    assert (
        found.count("duplicate-name") == 3
        and "unknown-seed" in found
        and "duplicate-table" in found
    )


def test_a_file_has_a_limit_that_may_be_raised(project: Project) -> None:
    limit = '[tool.lakesql]\nname = "p"\n[tool.lakesql.seeds]\nmax_size = '
    project.write("pyproject.toml", f'{limit}"10 B"\n')
    assert problems(project) == [("file-too-large", "seeds/countries.csv")]
    project.write("pyproject.toml", f'{limit}"1 KB"\n')
    assert problems(project) == []


# the table


def test_a_table_is_filled_and_then_only_when_the_file_has_changed(
    project: Project,
) -> None:
    done = project.fill()
    assert (done.status, done.done, done.rows, done.written) == (
        "success",
        "filled",
        2,
        2,
    )
    assert project.rows == [
        {"code": "DE", "area": "357022"},
        {"code": "FR", "area": "643801"},
    ]
    assert project.fill().done == "unchanged" and len(project.table.snapshots()) == 1
    project.seed("code,area\nDE,1\n")
    assert project.fill().done == "filled"
    assert project.rows == [{"code": "DE", "area": "1"}]
    assert [
        snapshot.summary.operation.value
        for snapshot in project.table.snapshots()
        if snapshot.summary
    ] == [
        "append",
        "overwrite",
    ]
    assert (project.fill(is_forced=True).because, project.fill().done) == (
        "as asked for",
        "unchanged",
    )


def test_types_are_those_of_the_contract_and_empty_fields_are_null(
    project: Project,
) -> None:
    columns = "{n: tinyint, d: 'decimal(5,2)', at: timestamp, local: timestamp_ntz, day: date, ok: boolean, x: float, "
    columns += "y: double, s: {type: string, description: a text}}"
    # A byte order mark, other capitals, blanks around names, another order than the
    # contract's, quoted empty values.
    text = '\ufeffS, N ,d,at,local,day,ok,x,y\n"",1,1.5,2026-03-01,2026-03-01,2026-03-01,true,0.5,NaN\nz,,,,,,,,\n'
    project.seed(text, columns)
    assert project.fill().rows == 2
    schema = project.table.schema()
    assert [f"{field.name} {field.field_type}" for field in schema.fields] == [
        "n int",
        "d decimal(5, 2)",
        "at timestamptz",
        "local timestamp",
        "day date",
        "ok boolean",
        "x float",
        "y double",
        "s string",
    ]
    assert schema.find_field("s").doc == "a text"
    (row,) = [row for row in project.rows if row.get("s") == "z"]
    assert set(row.values()) == {None, "z"}
    (other,) = [row for row in project.rows if row.get("s") is None]
    assert (
        other["d"] == Decimal("1.50")
        and other["at"] == datetime(2026, 3, 1, tzinfo=UTC)
        and isnan(other["y"])
    )


def test_other_columns_come_with_their_rows_in_one_commit_and_history_stays(
    project: Project,
) -> None:
    project.fill()
    first = project.table.current_snapshot()
    assert first is not None
    project.seed(
        "area,name,code\n1,Germany,DE\n", "{name: string, area: int, code: string}"
    )
    assert project.fill().done == "filled"
    table = project.table
    assert project.rows == [{"name": "Germany", "area": 1, "code": "DE"}]
    assert [field.name for field in table.schema().fields] == ["name", "area", "code"]
    assert len(table.snapshots()) == 2 and len(table.metadata.metadata_log) == 1
    old = table.scan(snapshot_id=first.snapshot_id).to_arrow().to_pylist()
    assert [row["area"] for row in old] == ["357022", "643801"]


def test_a_seed_without_rows_empties_its_table(project: Project) -> None:
    project.fill()
    project.seed("code,area\n")
    assert project.fill().rows == 0 and project.rows == []
    assert project.fill().done == "unchanged"


def test_rows_of_others_are_replaced_and_said(project: Project) -> None:
    project.fill()
    project.table.append(pa.table({"code": ["XX"], "area": ["0"]}))
    done = project.fill()
    assert (done.done, "others had written" in done.because, len(project.rows)) == (
        "filled",
        True,
        2,
    )
    project.table.delete()
    assert project.fill().done == "filled" and len(project.rows) == 2


def test_a_time_zone_that_changes_other_times_fills_again(project: Project) -> None:
    project.seed("code,at\nDE,2026-01-01 00:00\n", "{code: string, at: timestamp}")
    project.fill()
    project.target["spark"] = {"conf": {"spark.sql.session.timeZone": "Europe/Berlin"}}
    project.profile()
    assert project.fill().done == "filled"
    assert project.rows[0]["at"] == datetime(2025, 12, 31, 23, tzinfo=UTC)


def test_a_table_that_no_seed_has_made_is_left_alone(project: Project) -> None:
    project.iceberg.create_namespace("shop")
    table = project.iceberg.create_table(
        ("shop", "countries"), pa.schema([("mine", pa.int64())])
    )
    table.append(pa.table({"mine": [1]}))
    for is_forced in (False, True):
        done = project.fill(is_forced=is_forced)
        assert [problem.condition for problem in done.problems] == ["table-not-of-seed"]
    assert project.table.scan().to_arrow().to_pylist() == [{"mine": 1}]
    project.iceberg.rename_table(("shop", "countries"), ("shop", "theirs"))
    assert project.fill().done == "filled", "which the advice says"


def test_a_seed_of_another_project_is_left_alone(project: Project) -> None:
    project.fill()
    project.write("pyproject.toml", '[tool.lakesql]\nname = "q"\nprofile = "p"\n')
    (problem,) = project.fill().problems
    assert (
        problem.condition == "table-not-of-seed"
        and f"'{SEED_PROPERTY}' = 'q.countries'" in problem.fix
    )
    with project.table.transaction() as transaction:
        transaction.set_properties({SEED_PROPERTY: "q.countries"})
    assert project.fill().done == "unchanged", "which the advice says"


def test_a_table_that_others_have_partitioned_is_refused_and_made_anew(
    project: Project,
) -> None:
    project.fill()
    with project.table.update_spec() as update:
        update.add_identity("code")
    project.seed("code,area\nDE,1\n")
    assert [problem.condition for problem in project.fill().problems] == [
        "seed-not-filled"
    ]
    assert len(project.rows) == 2
    project.iceberg.drop_table(("shop", "countries"))
    assert project.fill().done == "filled"


def test_a_fill_that_breaks_off_leaves_the_rows_that_were(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step: before the rows are written, with them, and as they are to be
    committed."""

    class KilledError(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise KilledError

    project.fill()
    before = project.table.metadata_location
    project.seed("code,area,new\nDE,1,x\n")
    for place, name in (
        (seed_table, "_change_columns"),
        (seed_table, "_exchange"),
        (seed_table, "_write_files"),
        (Table, "_do_commit"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, kill)
            with pytest.raises(KilledError):
                project.fill()
        assert project.table.metadata_location == before and len(project.rows) == 2
    assert project.fill().done == "filled" and project.rows == [
        {"code": "DE", "area": "1", "new": "x"}
    ]


@pytest.mark.parametrize("is_there", [False, True])
def test_two_fills_at_once_leave_the_rows_once(
    project: Project, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_there:
        project.fill()
        project.seed("code,area\nDE,1\nFR,2\nCH,3\n")
    together, exchange = Barrier(2), seed_table._exchange
    waited: list[int] = []

    def exchange_together(*arguments: Any) -> None:
        exchange(*arguments)
        if len(waited) < 2:
            waited.append(1)
            together.wait(120)

    monkeypatch.setattr(seed_table, "_exchange", exchange_together)
    done: list[SeedFinished] = []
    threads = [Thread(target=lambda: done.append(project.fill())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.problems for event in done] == [(), ()] and len(waited) == 2
    assert [row["code"] for row in project.rows] == (
        ["CH", "DE", "FR"] if is_there else ["DE", "FR"]
    )
    assert len(project.table.snapshots()) == (2 if is_there else 1)


def test_a_snapshot_says_what_its_rows_are_made_from(project: Project) -> None:
    project.fill()
    snapshot = project.table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    (seed,) = load_project(Options(project_dir=project.directory)).seeds.values()
    assert snapshot.summary[SEED_VERSION] == seed.version("UTC")
    assert project.table.properties[SEED_PROPERTY] == "p.countries"


# commands


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.directory)
    project.write(
        "models/sales.sql",
        "{{ config(mode='append') }}\nSELECT o.code, c.area FROM {{ stream('orders') }} AS o "
        "LEFT JOIN {{ ref('countries') }} AS c ON o.code = c.code\n",
    )
    return project


def test_a_seed_is_selected_listed_and_read(run: Run, here: Project) -> None:
    assert run("ls", "-s", "+sales", "--resource-type", "seed") == (
        0,
        "p.countries\n",
        "",
    )
    assert run("ls", "-s", "path:seeds") == (0, "p.countries\n", "")
    assert run("ls", "-s", "countries+")[1].splitlines() == ["p.countries", "p.sales"]
    assert run("ls", "-s", "resource_type:seed")[1] == "p.countries\n"
    (line,) = run("ls", "-s", "countries", "-o", "json")[1].splitlines()
    assert json.loads(line)["table"] == "lake.shop.countries"
    assert "1 model, 1 stream and 1 seed, no errors" in run("parse")[1]
    nodes = json.loads((here.directory / "target/manifest.json").read_text())["nodes"]
    assert (
        nodes["model.sales"]["joins"]
        == ["seed.countries"]
        == nodes["model.sales"]["depends_on"][:1]
    )
    assert [column["name"] for column in nodes["seed.countries"]["contract"]] == [
        "code",
        "area",
    ]


def test_a_model_that_reads_what_a_seed_does_not_have_is_refused(
    run: Run, here: Project
) -> None:
    here.seed("code,population\nDE,1\n")
    code, _, err = run("parse", "--log-format", "json")
    found = [json.loads(line) for line in err.splitlines()]
    assert (code, [it["condition"] for it in found]) == (2, ["unknown-column"])


def test_the_command_fills_and_writes_its_results(run: Run, here: Project) -> None:
    code, out, err = run("seed")
    assert (
        (code, err) == (0, "")
        and "countries  filled with 2 rows" in out
        and "Seeds: 1 filled." in out
    )
    assert "Seeds: 1 unchanged." in run("seed")[1]
    results = json.loads((here.directory / "target/run_results.json").read_text())
    (result,) = results["results"]
    assert (
        result["name"],
        result["resource_type"],
        result["status"],
        result["rows"],
    ) == (
        "countries",
        "seed",
        "success",
        0,
    )
    assert run("ls", "-s", "result:success")[1] == "p.countries\n"
    events = [
        json.loads(line)
        for line in run("seed", "--full-refresh", "--log-format", "json")[
            1
        ].splitlines()
    ]
    assert [event["event"] for event in events] == [
        "run_started",
        "seed_finished",
        "run_finished",
    ]
    assert "357022" in run("show", "countries")[1]


def test_a_bad_value_fills_nothing_and_a_foreign_table_fails_alone(
    run: Run, here: Project
) -> None:
    here.write("seeds/other.csv", "a\n1\n")
    here.write("seeds/other.yml", "seeds: [{name: other, columns: {a: int}}]\n")
    here.iceberg.create_namespace("shop")
    here.iceberg.create_table(("shop", "countries"), pa.schema([("mine", pa.int64())]))
    code, out, err = run("seed")
    assert (
        code == 1
        and "error[table-not-of-seed]" in err
        and "Seeds: 1 filled, 1 failed." in out
    )
    here.write("seeds/other.csv", "a\nx\n")
    code, out, err = run("seed", "-s", "other")
    assert (
        (code, out) == (2, "")
        and "error[seed-value] seeds/other.csv:2:1" in err
        and "2 | x" in err
    )


def test_status_says_whether_a_table_has_the_rows_of_the_file(
    run: Run, here: Project
) -> None:
    def state() -> str:
        line = run("status", "countries", "-o", "json")[1]
        return str(json.loads(line)["state"])

    assert state() == "missing"
    run("seed")
    assert (
        state() == "filled"
        and "countries  filled" in run("status", "-s", "countries")[1]
    )
    here.seed("code,area\nDE,2\n")
    assert state() == "outdated" and "lakesql seed --select countries" in " ".join(
        run("status", "countries")[1].split()
    )


def test_a_table_is_dropped_also_where_its_file_is_gone(
    run: Run, here: Project
) -> None:
    code, _, err = run("drop", "countries", "--yes", "--log-format", "json")
    assert (
        code == 1 and json.loads(err.splitlines()[-1])["condition"] == "table-missing"
    )
    run("seed")
    code, out, _ = run("drop", "countries", "--dry-run")
    assert (
        code == 0
        and "table lake.shop.countries" in out
        and "Model sales reads its table." in out
    )
    assert run("drop", "countries", "--yes")[0] == 0 and not here.iceberg.table_exists(
        ("shop", "countries")
    )
    run("seed")
    for path in ("models/sales.sql", "seeds/countries.csv", "seeds/seeds.yml"):
        (here.directory / path).unlink()
    assert run("drop", "countries", "--yes")[0] == 0 and not here.iceberg.table_exists(
        ("shop", "countries")
    )


def test_data_tests_of_a_seed_run_without_java(run: Run, here: Project) -> None:
    here.write(
        "seeds/seeds.yml",
        "seeds: [{name: countries, columns: {code: {tests: [unique, not_null]}, area: {type: bigint, "
        "tests: [{expression: area > 400000}]}}}]\n",
    )
    here.write(
        "tests/few.sql", "SELECT * FROM {{ ref('countries') }} WHERE code = 'ZZ'\n"
    )
    code, out, _ = run("build", "-s", "countries")
    assert code == 1 and "Data tests: 3 passed, 1 failed." in out
    assert run("ls", "-s", "countries+", "--resource-type", "test")[1].count("\n") == 4
    here.seed("code,area\nDE,900000\n", "{code: string, area: bigint}")
    assert run("build", "-s", "countries")[0] == 0


def test_a_seed_that_is_joined_before_it_was_filled_is_named(
    run: Run, here: Project
) -> None:
    code, _, err = run("show", "countries")
    assert code == 1 and "lakesql seed --select countries" in err


def test_a_unit_test_gives_rows_of_a_seed(run: Run, here: Project) -> None:
    here.seed(columns="{code: string, area: bigint}")
    here.write(
        "models/m.yml",
        "unit_tests:\n- name: joined\n  model: sales\n  given:\n"
        "  - stream: orders\n    batches: [[{code: DE}, {code: X}]]\n"
        "  - ref: countries\n    rows: [{code: DE, area: 7}]\n"
        "  expect:\n    rows: [{code: DE, area: 7}, {code: X, area: null}]\n",
    )
    code, out, err = run("test", "--unit", "-s", "sales")
    assert (code, err) == (0, ""), out
