from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import ProfileError
from lakesql.project.duration import Duration
from lakesql.project.profiles import (
    Catalog,
    Retries,
    Spark,
    Target,
    load_target,
    resolve_paths,
)
from lakesql.source.files import Files
from lakesql.source.kafka import Kafka
from lakesql.source.rate import Rate
from lakesql.source.recorded import Recorded
from tests.cases import each_of

SECRET = "s3cr3t-value"


def load(
    tmp_path: Path,
    text: str | bytes,
    target: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Target:
    (tmp_path / "profiles.yml").write_bytes(
        text if isinstance(text, bytes) else text.encode()
    )
    return load_target("shop", target, [tmp_path], environ or {})


def output(block: str) -> str:
    """A profiles.yml whose output `dev` starts in line 4, indented by six."""
    return "shop:\n  outputs:\n    dev:\n" + "".join(
        f"      {line}\n" for line in block.splitlines()
    )


def problems(
    tmp_path: Path, text: str | bytes, **options: Any
) -> list[tuple[str, int | None, int | None]]:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text, **options)
    for problem in caught.value.problems:
        assert SECRET not in f"{problem.what} {problem.why} {problem.fix}"
        assert problem.place is not None and problem.place.path.endswith("profiles.yml")
    return [
        (
            problem.condition,
            problem.place and problem.place.line,
            problem.place and problem.place.column,
        )
        for problem in caught.value.problems
    ]


def test_a_target_has_defaults_for_everything(tmp_path: Path) -> None:
    assert load(tmp_path, "shop: {outputs: {dev: {}}}") == Target(
        name="dev",
        namespace="shop",
        catalog=Catalog("lake", "sql", "", "", {}),
        checkpoints=".lakesql/checkpoints",
        run="once",
        trigger=Duration("1 minute", 60_000),
        threads=4,
        spark=Spark("local[*]", {}),
        retries=Retries(10, Duration("5 minutes", 300_000)),
        connections={},
    )
    assert load(tmp_path, output("retries: {attempts: 0}")).retries.attempts == 0


@pytest.mark.parametrize(("value", "read"), [("3", 3), ("+12", 12), ("007", 7)])
def test_a_variable_is_read_as_the_option_takes_it(
    tmp_path: Path, value: str, read: int
) -> None:
    text = output("""\
threads: "{{ env_var('N') }}"
checkpoints: "{{ env_var('N') }}"
connections: {c: {type: rate, rows_per_second: "1{{ env_var('Z', '0') }}"}}
spark: {conf: {spark.a: "{{ env_var('N') }}"}}""")
    target = load(tmp_path, text, environ={"N": value})
    assert (target.threads, target.checkpoints, target.spark.conf) == (
        read,
        value,
        {"spark.a": value},
    )
    assert target.connections == {"c": Rate(10)}


@pytest.mark.parametrize(
    "value", ["", "x", "0", "-1", "1.5", "1e1", "1_0", "0x1", "1 0", "٣", "true"]
)
def test_a_variable_that_is_no_such_value_is_wrong(tmp_path: Path, value: str) -> None:
    text = output("threads: \"{{ env_var('N') }}\"")
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text, environ={"N": value})
    assert [problem.condition for problem in caught.value.problems] == ["wrong-value"]
    assert value == "" or value not in caught.value.problems[0].what.replace(
        "env_var('N')", ""
    )


def test_a_number_in_quotes_is_a_text(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, output("threads: '3'"))
    assert [problem.condition for problem in caught.value.problems] == ["wrong-value"]


def test_every_key_of_a_target_is_read(tmp_path: Path) -> None:
    text = output("""\
run: continuous
trigger: 90 seconds
threads: 2
namespace: other
checkpoints: "s3://{{ env_var('BUCKET') }}/checkpoints"
spark: {master: spark://m, conf: {spark.sql.shuffle.partitions: 4, spark.a: yes, spark.b: 1.10}}
catalog:
  name: big
  type: rest
  uri: "{{ env_var('URI', 'http://localhost') }}"
  credential: '{{ env_var("SECRET") }}'
  s3.path-style-access: true
  version: 010
connections:
  a: {type: recorded, path: here}
  b: {type: files}
  c: {type: rate, rows_per_second: 7}
  d: {type: kafka, bootstrap_servers: "h:1", options: {security.protocol: SASL_SSL, retries: 3}}""")
    assert load(tmp_path, text, environ={"BUCKET": "b", "SECRET": SECRET}) == Target(
        name="dev",
        namespace="other",
        catalog=Catalog(
            "big",
            "rest",
            "http://localhost",
            "",
            {"credential": SECRET, "s3.path-style-access": "true", "version": "010"},
        ),
        checkpoints="s3://b/checkpoints",
        run="continuous",
        trigger=Duration("90 seconds", 90_000),
        threads=2,
        spark=Spark(
            "spark://m",
            {"spark.sql.shuffle.partitions": "4", "spark.a": "true", "spark.b": "1.10"},
        ),
        connections={
            "a": Recorded("here"),
            "b": Files("."),
            "c": Rate(7),
            "d": Kafka("h:1", {"security.protocol": "SASL_SSL", "retries": "3"}),
        },
    )


def test_the_settings_of_spark_have_their_places(tmp_path: Path) -> None:
    spark = load(
        tmp_path,
        output("spark:\n  master: 'yarn'\n  conf: {spark.a: 1,\n    spark.b: x}"),
    ).spark
    assert {key: (place.line, place.column) for key, place in spark.places.items()} == {
        "spark.master": (5, 17),
        "spark.a": (6, 25),
        "spark.b": (7, 20),
    }


def test_spark_may_have_catalogs_beside_the_targets_own(tmp_path: Path) -> None:
    conf = {
        "spark.sql.catalog.lakes": "x",
        "spark.sql.catalog.other.uri": "x",
        "spark.sql.catalogImplementation": "x",
    }
    assert (
        load(tmp_path, output(f"spark: {{conf: {json.dumps(conf)}}}")).spark.conf
        == conf
    )


@pytest.mark.parametrize(
    ("default", "wanted", "found"),
    [
        ("", None, "dev"),
        ("target: prod", None, "prod"),
        ("target: prod", "dev", "dev"),
        ("", "prod", "prod"),
        ("target: \"{{ env_var('T') }}\"", None, "prod"),
    ],
)
def test_the_target_is_the_asked_one_or_the_default(
    tmp_path: Path, default: str, wanted: str | None, found: str
) -> None:
    text = f"x-note: any\nshop:\n  {default}\n  outputs: {{dev: {{}}, prod: {{}}}}\n"
    assert load(tmp_path, text, wanted, {"T": "prod"}).name == found


@pytest.mark.parametrize(
    ("text", "wanted", "environ", "named_by"),
    [
        (
            "shop: {outputs: {dev: {}}}",
            "prod",
            {"LAKESQL_TARGET": "prod"},
            "LAKESQL_TARGET",
        ),
        (
            "shop: {target: \"{{ env_var('T') }}\", outputs: {dev: {}}}",
            None,
            {"T": "prod"},
            "env_var('T')",
        ),
        ("shop: {outputs: {dev: {}}}", "prod", {"LAKESQL_TARGET": "other"}, ""),
        ("shop: {target: prod, outputs: {dev: {}}}", None, {}, ""),
    ],
)
def test_an_unknown_target_says_which_variable_names_it(
    tmp_path: Path,
    text: str,
    wanted: str | None,
    environ: Mapping[str, str],
    named_by: str,
) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text, wanted, environ)
    (found,) = caught.value.problems
    assert found.condition == "unknown-target"
    assert (named_by in found.why) if named_by else found.why == ""


def test_another_target_needs_none_of_its_secrets(tmp_path: Path) -> None:
    text = "shop: {outputs: {dev: {}, prod: {checkpoints: \"{{ env_var('MISSING') }}\", threads: x}}}"
    assert load(tmp_path, text).name == "dev"


def test_the_first_profiles_file_counts(tmp_path: Path) -> None:
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "profiles.yml").write_text(
            f"shop: {{outputs: {{dev: {{namespace: {name}}}}}}}"
        )
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    assert load_target("shop", None, folders, {}).namespace == "b"

    with pytest.raises(ProfileError) as caught:
        load_target("shop", None, [tmp_path / "x", tmp_path / "y"], {})
    (problem,) = caught.value.problems
    assert problem.condition == "no-profiles"
    assert (
        str(tmp_path / "x" / "profiles.yml") in problem.why
        and str(tmp_path / "y" / "profiles.yml") in problem.why
    )


def test_every_missing_variable_says_where_it_was_looked_for(tmp_path: Path) -> None:
    text = output(
        "checkpoints: \"{{ env_var('A') }}/{{ env_var('B') }}\"\nspark: {master: \"{{ env_var('C') }}\"}"
    )
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text, environ={"B": SECRET})
    assert [
        (problem.condition, problem.place and problem.place.line)
        for problem in caught.value.problems
    ] == [
        ("env-var-missing", 4),
        ("env-var-missing", 5),
    ]
    for problem, name in zip(caught.value.problems, "AC", strict=True):
        assert name in problem.what
        assert "environment" in problem.why and f"env_var('{name}', '…')" in problem.why
        assert str(problem.place) in problem.why


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ env_var('A') }}", "x"),
        ('{{ env_var("A") }}', "x"),
        ("{{env_var('A')}}-{{ env_var('Z', '') }}-{{ env_var('Z', 'd') }}", "x--d"),
        ("a {# note #}b", "a b"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{not: jinja}", "{not: jinja}"),
    ],
)
def test_a_text_may_hold_variables(tmp_path: Path, text: str, value: str) -> None:
    found = load(
        tmp_path, output(f"checkpoints: !!str |-\n  {text}"), environ={"A": "x"}
    )
    assert found.checkpoints == value


@pytest.mark.parametrize(
    "text",
    [
        "{{ env_var }}",
        "{{ env_var() }}",
        "{{ env_var(3) }}",
        "{{ env_var('A', 'b', 'c') }}",
        "{{ env_var('A', default='b') }}",
        "{{ env_var(*'AB') }}",
        "{{ env_var('A') | upper }}",
        "{{ env_var('A').x }}",
        "{{ env_var('A'",
        "{{ 1 / 0 }}",
        "{{ x }}",
        "{{ 'a' * 10000000000 }}",
        "{{ ''.__class__.__mro__ }}",
        "{% set a = 1 %}",
        "{% for a in range(9999999999) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_nothing_else_of_jinja_is_there(tmp_path: Path, text: str) -> None:
    found = problems(
        tmp_path, output(f"checkpoints: !!str |-\n  {text}"), environ={"A": SECRET}
    )
    assert {condition for condition, *_ in found} == {"bad-profile-template"}
    assert {line for _, line, _ in found} == {4}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("unknown-profile", 1, 1)),
        ("shap: {}", ("unknown-profile", 1, 1)),
        ("- shop", ("wrong-type", 1, 1)),
        ("shop:", ("wrong-type", 1, 6)),
        ("shop: [dev]", ("wrong-type", 1, 7)),
        ("shop: {}", ("missing-option", 1, 7)),
        ("shop: {outputs: }", ("wrong-type", 1, 17)),
        ("shop: {outputs: {prod: {}}}", ("unknown-target", 1, 17)),
        ("shop: {target: x, outputs: {dev: {}}}", ("unknown-target", 1, 16)),
        ("shop: {target: 3, outputs: {dev: {}}}", ("wrong-type", 1, 16)),
        ("shop: {target: [dev], outputs: {dev: {}}}", ("wrong-type", 1, 16)),
        ("shop: {targt: prod, outputs: {dev: {}}}", ("unknown-option", 1, 8)),
        ("shop: {outputs: {dev: }}", ("wrong-type", 1, 23)),
        ("shop: {outputs: {dev: {}}}\nshop: {}", ("yaml-duplicate-key", 2, 1)),
        ("shop: {outputs: {dev: {{ env_var('X') }}}}", ("yaml-syntax", 1, 24)),
        (b"shop: \xff", ("not-text", None, None)),
    ],
)
def test_a_missing_or_malformed_profile_is_refused(
    tmp_path: Path, text: str | bytes, found: tuple[str, int | None, int | None]
) -> None:
    assert problems(tmp_path, text) == [found]


@pytest.mark.parametrize(
    ("block", "condition", "column"),
    [
        ("rum: once", "unknown-option", 7),
        ("name: x", "unknown-option", 7),
        ("run: always", "wrong-value", 12),
        ("run: \"{{ env_var('SECRET') }}\"", "wrong-value", 12),
        ("threads: \"{{ env_var('SECRET') }}\"", "wrong-value", 16),
        ("namespace: \"{{ env_var('SECRET') }} x\"", "bad-name", 18),
        ("catalog: {name: \"{{ env_var('SECRET') }}\"}", "bad-name", 23),
        (
            "connections: {a: {type: \"{{ env_var('SECRET') }}\"}}",
            "unknown-connection-type",
            31,
        ),
        ("threads: 0", "wrong-value", 16),
        ("threads: yes", "wrong-value", 16),
        ("namespace: a.b", "bad-name", 18),
        ("namespace:", "bad-name", 17),
        ("checkpoints: 3", "wrong-type", 20),
        ("checkpoints: ''", "wrong-value", 20),
        ("checkpoints: \"{{ env_var('NONE', ' ') }}\"", "wrong-value", 20),
        ("spark: {master: ''}", "wrong-value", 23),
        ("connections: {a: {type: files, path: ''}}", "wrong-value", 44),
        ("connections: {a: {type: recorded, path: ' '}}", "wrong-value", 47),
        ("connections: {a: {type: files, path: landing/*}}", "wrong-value", 44),
        ("connections: {a: {type: recorded, path: '**/recorded'}}", "wrong-value", 47),
        ("spark: local", "wrong-type", 14),
        ("spark: {mster: x}", "unknown-option", 15),
        ("spark: {conf: {spark.a: [1]}}", "wrong-type", 31),
        ("spark: {conf: {spark.a: }}", "wrong-type", 31),
        ("spark: {conf: {spark.master: yarn}}", "spark-option", 22),
        ("spark: {conf: {sql.shuffle.partitions: 8}}", "spark-option", 22),
        ("spark: {conf: {fs.s3a.endpoint: x}}", "spark-option", 22),
        ("spark: {conf: {spark.sql.catalog.lake.uri: x}}", "spark-option", 22),
        ("spark: {conf: {spark.sql.catalog.lake: x}}", "spark-option", 22),
        ("spark: {conf: {spark.wap.branch: audit}}", "spark-option", 22),
        ("spark: {conf: {spark.sql.timestampType: TIMESTAMP_NTZ}}", "spark-option", 22),
        (
            "spark: {conf: {spark.sql.legacy.timeParserPolicy: LEGACY}}",
            "spark-option",
            22,
        ),
        (
            "spark: {conf: {spark.sql.storeAssignmentPolicy: legacy}}",
            "spark-option",
            22,
        ),
        (
            "{catalog: {name: own}, spark: {conf: {spark.sql.catalog.own.warehouse: x}}}",
            "spark-option",
            45,
        ),
        ("catalog: {name: my-lake}", "bad-name", 23),
        ("catalog: {type: 3}", "wrong-type", 23),
        ("catalog: {token: {a: b}}", "wrong-type", 24),
        ("catalog: lake", "wrong-type", 16),
        ("catalog: {warehose: /wh}", "unknown-option", 17),
        ("catalog: {credentials: a}", "unknown-option", 17),
        ("catalog: {Token: a}", "unknown-option", 17),
        ("catalog: {oauth2-server-url: a}", "unknown-option", 17),
        ("catalog: {io_impl: a}", "unknown-option", 17),
        (
            "connections: {a: {type: kafka, bootstrap_servers: h, options: {security.protocl: x}}}",
            "kafka-option",
            70,
        ),
        ("connections: [a]", "wrong-type", 20),
        ("connections: {a: kafka}", "wrong-type", 24),
        ("connections: {a: {path: x}}", "unknown-connection-type", 24),
        ("connections: {a: {type: kafak}}", "unknown-connection-type", 31),
        ("connections: {a: {type: [kafka]}}", "unknown-connection-type", 31),
        ("connections: {a: {type: {kafka: 1}}}", "unknown-connection-type", 31),
        ("connections: {a: {type: ~}}", "unknown-connection-type", 31),
        ("connections: {a: {type: recorded}}", "missing-option", 24),
        (
            "connections: {a: {type: kafka, bootstrap_servers: h, option: {}}}",
            "unknown-option",
            60,
        ),
        ("connections: {a: {type: rate, rows_per_second: 0}}", "wrong-value", 54),
    ],
)
def test_each_mistake_of_an_output_has_a_condition_and_a_place(
    tmp_path: Path, block: str, condition: str, column: int
) -> None:
    assert problems(tmp_path, output(block), environ={"SECRET": SECRET}) == [
        (condition, 4, column)
    ]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("landing/*", "landing"),
        ("a/b*/c", "a"),
        ("*", "."),
        ("/*", "/"),
        ("/data/in-*/x", "/data"),
        ("s3a://bucket/**", "s3a://bucket"),
    ],
)
def test_a_connections_path_with_a_star_is_refused_with_the_folder_to_write(
    tmp_path: Path, path: str, folder: str
) -> None:
    text = "connections: {a: {type: files, path: '%s'}}"
    with pytest.raises(ProfileError) as raised:
        load(tmp_path, output(text % path))
    assert f"`path: {folder}`" in raised.value.problems[0].fix
    assert load(tmp_path, output(text % folder)).connections["a"] == Files(folder)


@pytest.mark.parametrize(
    "key",
    [
        "py-io-impl",
        "warehouse-id",
        "clients",
        "client-id",
        "s3.endpiont",
        "x",
        "tenant",
        "prefer",
    ],
)
def test_a_key_of_a_catalog_that_is_near_none_goes_on_to_it(
    tmp_path: Path, key: str
) -> None:
    assert load(tmp_path, output(f"catalog: {{{key}: a}}")).catalog.properties == {
        key: "a"
    }


def test_all_problems_of_an_output_are_reported_together(tmp_path: Path) -> None:
    block = "run: x\nconnections:\n  a: {type: x}\n  b: {type: rate, rows_per_second: x}\ncatalog: {k: [], l: []}"
    assert problems(tmp_path, output(block)) == [
        ("wrong-type", 8, 20),
        ("wrong-type", 8, 27),
        ("wrong-value", 4, 12),
        ("unknown-connection-type", 6, 19),
        ("wrong-value", 7, 42),
    ]


def test_a_profile_whose_name_is_no_namespace_needs_one(tmp_path: Path) -> None:
    (tmp_path / "profiles.yml").write_text(
        "my-shop: {outputs: {dev: {}, prod: {namespace: shop}}}"
    )
    assert load_target("my-shop", "prod", [tmp_path], {}).namespace == "shop"
    with pytest.raises(ProfileError) as caught:
        load_target("my-shop", "dev", [tmp_path], {})
    assert [problem.condition for problem in caught.value.problems] == ["bad-name"]


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("", ""),
        ("a/b", "/p/a/b"),
        ("./a/../b", "/p/b"),
        ("../x", "/x"),
        ("/abs", "/abs"),
        ("~/lake", "/home/somebody/lake"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("s3a://bucket/../x", "s3a://bucket/../x"),
        ("file:///tmp/x", "file:///tmp/x"),
        ("file:/tmp/x", "file:/tmp/x"),
        ("hdfs:/x", "hdfs:/x"),
    ],
)
def test_local_paths_become_absolute_and_urls_stay(
    monkeypatch: pytest.MonkeyPatch, path: str, absolute: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    kafka, rate = Kafka("h:1"), Rate()
    target = Target(
        "dev",
        "n",
        Catalog(warehouse=path, properties={"py-io-impl": "a/b"}),
        path,
        connections={"r": Recorded(path), "f": Files(path), "k": kafka, "g": rate},
    )
    assert resolve_paths(target, Path("/p")) == replace(
        target,
        catalog=replace(target.catalog, warehouse=absolute),
        checkpoints=absolute,
        connections={
            "r": Recorded(absolute),
            "f": Files(absolute),
            "k": kafka,
            "g": rate,
        },
    )


def test_what_a_catalog_service_calls_its_warehouse_is_no_path() -> None:
    target = Target(
        "dev", catalog=Catalog(type="rest", uri="http://h", warehouse="main")
    )
    assert resolve_paths(target, Path("/p")).catalog.warehouse == "main"


@each_of(
    ("kind", "uri", "resolved", "file"),
    [
        (
            "sql",
            "sqlite:///.lakesql/c.db",
            "sqlite:////p/.lakesql/c.db",
            "/p/.lakesql/c.db",
        ),
        ("sql", "sqlite:////abs/c.db", "sqlite:////abs/c.db", "/abs/c.db"),
        ("sql", "sqlite:///c.db?timeout=3", "sqlite:////p/c.db?timeout=3", "/p/c.db"),
        ("sql", "postgresql://h/db", "postgresql://h/db", None),
        ("sql", "", "", None),
        ("rest", "http://h/catalog", "http://h/catalog", None),
        ("rest", "sqlite:///c.db", "sqlite:////p/c.db", None),
    ],
)
def test_a_catalog_on_sqlite_is_a_file(
    kind: str, uri: str, resolved: str, file: str | None
) -> None:
    catalog = resolve_paths(
        Target("dev", catalog=Catalog(type=kind, uri=uri)), Path("/p")
    ).catalog
    assert catalog.uri == resolved
    assert catalog.sqlite_file == (Path(file) if file else None)
