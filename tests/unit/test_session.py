"""What Spark and Java are told, without starting them."""

import re
import socket
import stat
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from lakesql.engine.spark.jars import driver_jars
from lakesql.engine.spark.java import Java
from lakesql.engine.spark.jvm import (
    FAST_COMPILER,
    RECORDING,
    Launch,
    _copy_output,
    archive_path,
    kill_jvm,
    order_jars,
    render_log_settings,
    render_properties,
    start_jvm,
    wait_for_jvm,
)
from lakesql.engine.spark.session import (
    SessionSettings,
    build_conf,
    build_launch,
    catalog_conf,
    check_master,
    open_session,
    render_redaction,
)
from lakesql.errors import Place, ProfileError
from lakesql.progress.holder import started as is_there_since
from lakesql.project.profiles import Catalog
from lakesql.secrets import find_secrets
from tests.cases import each_of
from tests.servers.process import LOOPBACK, free_ports

EMBEDDED = Catalog("lake", "sql", "sqlite:////data/catalog.db", "/data/warehouse")


def settings(master: str = "local[2]", **conf: str) -> SessionSettings:
    java = Java(Path("/java"), Path("/java/bin/java"), "17.0.1", "17.0.1+1")
    options = {key.replace("__", "."): value for key, value in conf.items()}
    return SessionSettings(
        "shop",
        master,
        options,
        EMBEDDED,
        (Path("/a.jar"),),
        Path("/l.log"),
        Path("/home"),
        java,
    )


def test_the_targets_conf_wins_over_every_default() -> None:
    plain = build_conf(settings())
    for key in plain:
        assert build_conf(settings(**{key: "mine"}))[key] == "mine"


def test_only_a_local_session_is_bound_to_loopback() -> None:
    assert build_conf(settings("local[*]"))["spark.driver.host"] == "127.0.0.1"
    remote = build_conf(settings("spark://host:7077"))
    assert "spark.driver.host" not in remote
    assert remote["spark.jars"] == "/a.jar"
    assert (
        build_conf(settings("spark://host:7077", spark__jars="/own.jar"))["spark.jars"]
        == "/a.jar,/own.jar"
    )


def test_the_embedded_catalog_is_one_file_for_spark_and_pyiceberg() -> None:
    conf = catalog_conf(EMBEDDED)
    told = {
        key.removeprefix("spark.sql.catalog.lake."): value
        for key, value in conf.items()
    }
    assert told["uri"] == "jdbc:sqlite:/data/catalog.db"
    assert (
        told["type"],
        told["jdbc.schema-version"],
        told["jdbc.init-catalog-tables"],
    ) == ("jdbc", "V1", "false")
    assert told["warehouse"] == "/data/warehouse"


def test_other_catalogs_are_passed_through() -> None:
    conf = catalog_conf(
        Catalog(
            "lake",
            "hive",
            "thrift://catalog",
            "",
            {"list-all-tables": "true", "x": "y"},
        )
    )
    assert {
        key: value for key, value in conf.items() if not key.startswith("spark.hadoop.")
    } == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hive",
        "spark.sql.catalog.lake.uri": "thrift://catalog",
        "spark.sql.catalog.lake.list-all-tables": "true",
        "spark.sql.catalog.lake.x": "y",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


@each_of("uri", ["", "mysql://host/db", "sqlite://", "postgresql://host"])
def test_a_sql_catalog_is_on_sqlite_or_postgresql(uri: str) -> None:
    with pytest.raises(ProfileError) as error:
        catalog_conf(Catalog("lake", "sql", uri))
    assert error.value.problems[0].condition == "catalog-uri"


def test_properties_are_plain_or_escaped() -> None:
    assert (
        render_properties({"spark.x": "a b=ü\n"})
        == "spark.x=a\\u0020b\\u003d\\u00fc\\u000a\n"
    )


def test_large_jars_come_first(tmp_path: Path) -> None:
    for name, size in (("a", 1), ("b", 3), ("c", 3)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert [jar.name for jar in order_jars(sorted(tmp_path.iterdir()))] == [
        "b",
        "c",
        "a",
    ]


def test_an_archive_is_for_one_java_one_set_of_jars_and_options(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"x")
    java, other = (
        settings().java,
        Java(Path("/java"), Path("/java/bin/java"), "17.0.2", "17.0.2+1"),
    )
    first = archive_path(tmp_path, java, [jar], ["-Xmx1g"])
    assert first == archive_path(tmp_path, java, [jar], ["-Xmx1g"])
    assert first == archive_path(tmp_path, java, [jar], ["-Xmx31G", "-Xms512m"])
    assert first == archive_path(tmp_path, java, [jar], [FAST_COMPILER])
    others = {
        archive_path(tmp_path, other, [jar], ["-Xmx1g"]),
        archive_path(tmp_path, java, [jar], ["-Xmx32768m"]),
    }
    jar.write_bytes(b"xy")
    assert len(others | {first, archive_path(tmp_path, java, [jar], ["-Xmx1g"])}) == 4


@cache
def unsigned_jars(home: Path) -> Path:
    """The folder of Spark's signed jars without their signatures, made once for all
    tests."""
    driver_jars(home)
    return home / "jars"


def launch(tmp_path: Path, program: str) -> Launch:
    """A launch whose Java is the shell script `program`, and brings an archive of its
    own classes."""
    if not (tmp_path / "home").exists():
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "jars").symlink_to(
            unsigned_jars(tmp_path.parent / "unsigned")
        )
    (tmp_path / "lib" / "server").mkdir(parents=True, exist_ok=True)
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    binary = tmp_path / "java"
    binary.write_text(f"#!/bin/sh\n{program}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    java = Java(tmp_path, binary, "17.0.1", "17.0.1+1")
    return Launch(
        java=java,
        jars=(),
        class_path="",
        options=(),
        submit={},
        environ={"PATH": "/usr/bin:/bin"},
        log_file=tmp_path / "logs" / "spark.log",
        home=tmp_path / "home",
        record=True,
    )


ANSWER = """printf '\\000\\000\\001\\002\\000\\000\\000\\003abc' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
for option in "$@"; do case "$option" in -XX:ArchiveClassesAtExit=*) archive="${option#*=}"; esac; done
cat
"""


def test_the_port_and_the_secret_are_read(tmp_path: Path) -> None:
    jvm = start_jvm(launch(tmp_path, ANSWER))
    assert wait_for_jvm(jvm) == (258, "abc")
    jvm.process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("end", "kept"),
    [("echo classes > $archive", 1), ("echo classes > $archive; exit 1", 0)],
)
def test_an_archive_counts_once_it_is_complete(
    tmp_path: Path, end: str, kept: int
) -> None:
    jvm = start_jvm(launch(tmp_path, ANSWER + end))
    wait_for_jvm(jvm)
    assert list((tmp_path / "home" / "classes").glob("*.jsa")) == []
    jvm.process.communicate(timeout=10)
    assert len(list((tmp_path / "home" / "classes").glob("*.jsa"))) == kept


def test_a_java_that_records_its_classes_is_killed_with_the_shell_around_it(
    tmp_path: Path,
) -> None:
    jvm = start_jvm(launch(tmp_path, f"echo $$ > {tmp_path}/pid\nexec sleep 300"))
    ends_by = time.monotonic() + 10
    while not (tmp_path / "pid").exists() and time.monotonic() < ends_by:
        time.sleep(0.01)
    java = int((tmp_path / "pid").read_text())
    assert java != jvm.process.pid
    kill_jvm(jvm.process)
    while is_there_since(java) and time.monotonic() < ends_by:
        time.sleep(0.01)
    assert not is_there_since(java)


def test_only_a_brief_session_has_the_fast_compiler_alone_and_the_targets_options_win() -> (
    None
):
    own = "-XX:TieredStopAtLevel=4"
    brief = replace(settings(spark__driver__extraJavaOptions=own), is_brief=True)
    options = build_launch(brief, build_conf(brief)).options
    assert options.index(FAST_COMPILER) < options.index(own)
    assert FAST_COMPILER not in build_launch(settings(), build_conf(settings())).options


@each_of(
    ("memory", "heap"),
    [
        ("4096", "4096m"),
        ("2gb", "2g"),
        ("1G", "1g"),
        ("700m", "700m"),
        ("1048576kb", "1048576k"),
        ("1t", "1t"),
        ("2147483648b", "2147483648"),
    ],
)
def test_memory_is_said_as_spark_takes_it(memory: str, heap: str) -> None:
    given = settings(spark__driver__memory=memory)
    assert f"-Xmx{heap}" in build_launch(given, build_conf(given)).options


@each_of("memory", ["0.5g", "2 x", "", "much", "-1g"])
def test_memory_that_spark_does_not_take_is_refused_at_its_place(memory: str) -> None:
    place = Place("profiles.yml", 5, 16)
    given = replace(
        settings(spark__driver__memory=memory), places={"spark.driver.memory": place}
    )
    with pytest.raises(ProfileError) as error:
        build_launch(given, build_conf(given))
    (problem,) = error.value.problems
    assert (problem.condition, problem.place) == ("spark-refused", place)


def test_all_that_spark_says_of_its_driver_reaches_java(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/there")
    given = settings(
        spark__driver__defaultJavaOptions="-Da=1 -Db=1",
        spark__driver__extraJavaOptions="-Db=2",
        spark__driver__extraLibraryPath="/native",
    )
    launched = build_launch(given, build_conf(given))
    assert launched.options[-3:] == ("-Da=1", "-Db=1", "-Db=2"), (
        "what is said last counts"
    )
    assert launched.environ["LD_LIBRARY_PATH"] == "/native:/there"


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"])
def test_a_clusters_addresses_are_found_in_the_folders_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def told(master: str) -> tuple[str, str | None]:
        given = settings(master, spark__driver__extraClassPath="/x.jar")
        conf = build_conf(given)
        return build_launch(given, conf).class_path, conf.get(
            "spark.hadoop.fs.defaultFS"
        )

    for other in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(other, raising=False)
    assert told("yarn") == told("local[2]") == ("/x.jar", None)
    monkeypatch.setenv(name, "/etc/cluster")
    assert told("yarn") == ("/x.jar:/etc/cluster", None)
    assert told("local[2]") == ("/x.jar:/etc/cluster", "file:///"), (
        "a path without a scheme stays one of this machine"
    )


def test_a_java_that_ends_at_once_is_an_error_with_its_last_words(
    tmp_path: Path,
) -> None:
    started = time.monotonic()
    with pytest.raises(ProfileError) as error:
        wait_for_jvm(
            start_jvm(launch(tmp_path, "echo Invalid maximum heap size >&2; exit 1"))
        )
    assert error.value.problems[0].condition == "jvm-failed"
    assert "Invalid maximum heap size" in error.value.problems[0].why
    assert time.monotonic() - started < 30


def test_what_java_says_of_classes_that_it_does_not_record_is_not_why_it_ended(
    tmp_path: Path,
) -> None:
    of_classes = "echo '[4.321s][warning][cds] Skipping org/apache/X: Old class has been linked';"
    with pytest.raises(ProfileError) as error:
        wait_for_jvm(
            start_jvm(launch(tmp_path, f"echo No such option; {of_classes * 3} exit 1"))
        )
    assert error.value.problems[0].why == "No such option"


def test_a_master_that_is_away_is_named_in_seconds() -> None:
    (nobody,) = free_ports(1)
    master, place = f"spark://{LOOPBACK}:{nobody}", Place("profiles.yml", 5, 16)
    away = replace(settings(master), places={"spark.master": place})
    started = time.monotonic()
    with pytest.raises(ProfileError) as error:
        open_session(away)
    (problem,) = error.value.problems
    assert (problem.condition, problem.place) == ("spark-unreachable", place)
    assert master in problem.what
    assert time.monotonic() - started < 20


def test_one_of_several_masters_is_enough() -> None:
    (nobody,) = free_ports(1)
    with socket.create_server((LOOPBACK, 0)) as somebody:
        check_master(
            f"spark://{LOOPBACK}:{nobody},{LOOPBACK}:{somebody.getsockname()[1]}"
        )
    with pytest.raises(ProfileError):
        check_master(f"spark://{LOOPBACK}:{nobody},{LOOPBACK}")


@each_of(
    "master",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[*, 4]",
        "local-cluster[2,1,1024]",
        "yarn",
        "k8s://https://a:443",
    ],
)
def test_every_other_master_is_for_spark_to_reach(master: str) -> None:
    check_master(master)


@each_of(
    "master",
    [
        "locl[2]",
        "local[]",
        "local[many]",
        "local[2",
        "localhost:7077",
        "spark://",
        "mesos://host:5050",
        "",
    ],
)
def test_what_is_no_master_is_refused_at_its_place_before_java_is_started(
    master: str,
) -> None:
    place = Place("profiles.yml", 5, 16)
    with pytest.raises(ProfileError) as error:
        # there is no such Java
        open_session(replace(settings(master), places={"spark.master": place}))
    (problem,) = error.value.problems
    assert (problem.condition, problem.place) == ("spark-refused", place)
    assert f"'{master}'" in problem.what


def test_an_unwritable_cache_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    said: list[str] = []
    jvm = start_jvm(launch(tmp_path, ANSWER), said.append)
    assert wait_for_jvm(jvm) == (258, "abc")
    assert said == [], "nothing is recorded"
    jvm.process.communicate(timeout=10)


@pytest.mark.parametrize(("records", "says"), [(True, [RECORDING]), (False, [])])
def test_a_run_says_why_it_is_slower_than_the_next_one(
    tmp_path: Path, records: bool, says: list[str]
) -> None:
    said: list[str] = []
    jvm = start_jvm(replace(launch(tmp_path, ANSWER), record=records), said.append)
    jvm.process.communicate(timeout=10)
    assert said == says


SECRET = 'p@ss"w|rd${x}\\ü𝄞'
SECRETS = find_secrets({"LAKESQL_SECRET_X": SECRET})


def test_sparks_listings_leave_out_the_values_that_hold_a_secret() -> None:
    conf = {
        "spark.x.header": f"Bearer {SECRET}",
        "spark.x.plain": "value",
        "spark.x.s3.secret-access-key": "k",
    }
    sensitive = re.compile(render_redaction(conf, SECRETS))
    assert [key for key in conf if sensitive.search(key)] == [
        "spark.x.header",
        "spark.x.s3.secret-access-key",
    ]
    assert not sensitive.search("value")


def test_a_secret_in_an_option_of_java_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKESQL_SECRET_X", "hush-hush")
    leaking = settings(spark__driver__extraJavaOptions="-Dkey=hush-hush")
    with pytest.raises(ProfileError) as error:
        build_launch(leaking, build_conf(leaking))
    assert error.value.problems[0].condition == "secret-on-command-line"


def test_javas_log_settings_mask_every_form_and_hold_none(tmp_path: Path) -> None:
    text = render_log_settings("plain = 1\n", SECRETS)
    assert text.startswith("plain = 1\n")
    assert not SECRETS.are_in(text)
    (line,) = (line for line in text.splitlines() if ".regex = " in line)
    loaded = line.split(" = ", 1)[1].replace("\\\\", "\\")  # as Java's properties do
    units = re.findall(r"\\u([0-9a-f]{4})", loaded.split("|")[-1])
    assert bytes.fromhex("".join(units)).decode("utf-16-be") == SECRETS.forms[-1]


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="a disk that is full is a file of Linux"
)
def test_a_full_disk_does_not_block_javas_output() -> None:
    program = [
        sys.executable,
        "-c",
        "print('x' * 80 + '\\n', end='' ); print('y' * 500_000)",
    ]
    process = subprocess.Popen(program, stdout=subprocess.PIPE)
    _copy_output(process, Path("/dev/full"), SECRETS).join(30)
    assert process.wait(30) == 0


def test_java_does_not_hear_what_is_sent_to_end_a_run(tmp_path: Path) -> None:
    jvm = start_jvm(replace(launch(tmp_path, "kill -TERM $$\n" + ANSWER), record=False))
    assert wait_for_jvm(jvm) == (258, "abc")
    jvm.process.communicate()


def test_the_file_of_javas_output_is_rotated_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesql.engine.spark.jvm.MAX_OUTPUT_BYTES", 10)
    output = tmp_path / "logs" / "spark.out"
    output.parent.mkdir()
    for text in ("first, and long", "second, and long"):
        output.write_text(text)
        jvm = start_jvm(replace(launch(tmp_path, ANSWER), record=False))
        wait_for_jvm(jvm)
        jvm.process.communicate()
        assert (output.read_text(), output.with_name("spark.out.1").read_text()) == (
            "",
            text,
        )


def test_what_java_prints_is_copied_without_secrets(tmp_path: Path) -> None:
    program = "printf 'a %s b\\n' \"$LEAK\" >&2\n" + ANSWER
    start = launch(tmp_path, program)
    jvm = start_jvm(
        replace(
            start,
            record=False,
            secrets=SECRETS,
            environ={**start.environ, "LEAK": SECRET},
        )
    )
    assert wait_for_jvm(jvm) == (258, "abc")
    assert jvm.process.stdin is not None and jvm.copier is not None
    jvm.process.stdin.close()
    jvm.copier.join(10)
    assert (tmp_path / "logs" / "spark.out").read_text() == "a *** b\n"


IMPORTS = """
import sys
from concurrent.futures import Future
from lakesql.engine.spark import session

def loaded():
    return {name for name in sys.modules if name.startswith(("pyspark", "py4j"))}

begun = Future()
session.is_java_up = lambda: True
session.build_conf = lambda settings: {"spark.master": "local"}
session._connect = lambda *_: begun.set_result(loaded())
session.Opening(type("Settings", (), {"places": {}}))
before = begun.result()
import lakesql.run.build, lakesql.run.maintain, lakesql.run.models, lakesql.run.rebuild
print(*(loaded() - before))
"""


@pytest.mark.checks
def test_nothing_of_pyspark_is_imported_while_a_thread_brings_a_session_up() -> None:
    """Its modules import each other, which two threads cannot do at a time."""
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "", "")
