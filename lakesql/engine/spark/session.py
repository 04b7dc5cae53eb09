"""The Spark session that models run in: its configuration, and how it is opened and
closed."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lakesql.address import first_reachable
from lakesql.engine.spark.java import Java
from lakesql.engine.spark.jvm import (
    FAST_COMPILER,
    Jvm,
    Launch,
    kill_jvm,
    start_jvm,
    wait_for_jvm,
)
from lakesql.engine.spark.warm import (
    ANSWER_S,
    WarmJvm,
    WarmPlace,
    WarmProcess,
    take_java,
)
from lakesql.errors import Place, Problem, ProfileError, RunError
from lakesql.project.catalog import hadoop_properties, spark_properties
from lakesql.project.profiles import Catalog
from lakesql.secrets import Secrets, find_secrets, without_secrets

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# What a session starts with; the target's spark.conf wins over each of them.
DEFAULTS: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # or `${env:X}` in a model would read this process's environment
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    # no Hive, and no metastore_db beside the project
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # would make five calls to Java for each expression that is built
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A model of mode upsert has some 50 generated classes. With Spark's default of 100,
    # a few models evict each other's, so that each batch compiles them again, and Java
    # runs them cold.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Java never compiles a method that is longer than this. Spark then splits a stage
    # whose code has one.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The status store keeps these in the heap for as long as the run lasts, though
    # there is no UI to show them.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.ui.retainedQueries": "5",
}
LOCAL_DEFAULTS: dict[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The default, by Hadoop's FileContext, starts two `readlink` processes per rename.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # The files of a pattern are listed before each batch, by default in one task per
    # file: with 1,500 of them that took 0.4 s longer.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What `open_session` needs to know.

    Local paths of `catalog` are absolute. `conf` is the target's own configuration and
    wins over every default. `record` is False for commands that do too little to leave
    a useful class-data archive behind, and `is_brief` is True if Java ends before the
    code of its optimising compiler would pay. `places` has where the target sets a
    setting, by its key, for errors about it. `warm` is where a running Java is taken
    from and given back for the next command; None if Java ends with the session.
    """

    app_name: str
    master: str
    conf: Mapping[str, str]
    catalog: Catalog
    jars: tuple[Path, ...]
    log_file: Path
    home: Path
    java: Java
    record: bool = True
    is_brief: bool = False
    places: Mapping[str, Place] = field(default_factory=dict)
    warm: WarmPlace | None = None


TAKEN_WITHIN_S = 10.0
"""How long `Opening.drop` waits for a session in a Java taken from an earlier command,
so that it can be given back; after that, the Java is ended."""


class Opening:
    """A session that is being opened in a thread of its own, in a Java that was started
    for it.

    A process has one Java: a session that is opened after another one has been stopped
    has the jars and the memory of the first one. `said` has the reasons why it takes
    longer than it will the next time.
    """

    def __init__(self, settings: SessionSettings) -> None:
        """Start Java, unless an earlier session has left its own.

        Raises ProfileError `catalog-uri`, `secret-on-command-line`, and what
        `check_master` and `check_none_is_open` raise.
        """
        conf = build_conf(settings)
        check_master(conf["spark.master"], settings.places.get("spark.master"))
        check_none_is_open()
        self.settings = settings
        self.said: list[str] = []
        self.is_taken = False
        self._jvm = (
            None if is_java_up() else self._begin(build_launch(settings, conf), conf)
        )
        _import_pyspark()
        self._up: Future[SparkSession] = Future()
        self._thread = threading.Thread(
            target=self._open, args=(conf,), name="lakesql-session", daemon=True
        )
        self._thread.start()

    def _begin(self, launch: Launch, conf: Mapping[str, str]) -> Jvm | WarmJvm:
        """A Java that a former command has left, or a new one."""
        if self.settings.warm is not None:
            taken = take_java(
                self.settings.warm, launch, split_own(conf)[0], self.said.append
            )
            if taken is not None:
                return taken
        return start_jvm(launch, self.said.append)

    def wait(self) -> SparkSession:
        """The session once it is open, active in this thread too. Raises ProfileError
        `jvm-failed` and `spark-refused`."""
        session = self._up.result()
        activate(session)
        return session

    def drop(self) -> None:
        """End the session and its Java at once: it has written nothing. A Java that an
        earlier session of this process has left stays; a warm one is given back if the
        session opens in time."""
        if isinstance(self._jvm, WarmJvm):
            self._thread.join(0 if self._jvm.is_new else TAKEN_WITHIN_S)
            if self._up.done() and self._up.exception() is None:
                _give_back(self._up.result(), self._jvm.process)
            else:
                self._jvm.process.end()
                self._thread.join()
                _forget()
        elif self._jvm is not None:
            kill_jvm(self._jvm.process)
            self._thread.join()
            _forget()

    def _open(self, conf: Mapping[str, str]) -> None:
        try:
            self._up.set_result(
                _connect(self.settings, conf, self._jvm, self.said.append)
            )
        except BaseException as error:
            self._up.set_exception(error)


def open_session(
    settings: SessionSettings,
    meanwhile: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda text: None,
    ahead: Opening | None = None,
) -> SparkSession:
    """A session with the target's catalog. No output of Spark, Java or a Python worker
    reaches the screen.

    `meanwhile` is called while the session is being opened, which takes seconds; `say`
    is called with the reasons why it takes longer than it will the next time. A catalog
    of type `sql` must have its tables before Spark is asked for one: Spark is told not
    to create them. `ahead` is a session whose opening has begun earlier; it is used if
    it has the same settings, and dropped otherwise.

    Raises what `Opening` raises.
    """
    if ahead is not None and ahead.settings != settings:
        ahead.drop()
        ahead = None
    opening = ahead or Opening(settings)
    opening.is_taken = True
    for text in (said := [*opening.said]):
        say(text)
    try:
        meanwhile()
        session = opening.wait()
        for text in opening.said[len(said) :]:
            say(text)
        _check_names(say)
        _choose_way(session, say)
        return session
    except BaseException:
        opening.drop()
        raise


def _choose_way(session: SparkSession, say: Callable[[str], None]) -> None:
    from lakesql.engine.spark.internals import choose_way

    choose_way(session, say)


def _check_names(say: Callable[[str], None]) -> None:
    """Report that Java does not find files with some names, if its encoding of file
    names differs from Python's."""
    from lakesql.engine.spark.gateway import java_class

    encoding = str(java_class("java.lang.System").getProperty("sun.jnu.encoding"))
    if encoding.lower().replace("-", "") != sys.getfilesystemencoding().replace(
        "-", ""
    ):
        say(
            f"Java reads names of files as {encoding}: files and folders whose names have other characters are passed "
            "over. Set LC_ALL to a locale of UTF-8 that this machine has, such as C.UTF-8"
        )


_IMPORTED = (
    "pyspark.sql",
    "pyspark.sql.functions",
    "pyspark.sql.avro.functions",
    "lakesql.engine.spark.gateway",
)


def _import_pyspark() -> None:
    """Import the modules of pyspark that a session and a run need, while Java starts
    and no other thread imports any.

    They import each other: if two threads import them at the same time, one may find a
    module half initialised.
    """
    for name in _IMPORTED:
        import_module(name)


def _connect(
    settings: SessionSettings,
    conf: Mapping[str, str],
    jvm: Jvm | WarmJvm | None,
    say: Callable[[str], None],
) -> SparkSession:
    """The session in this Java, once that is up; without `jvm`, in the Java that an
    earlier session has left."""
    if _is_local(settings.master) or not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable

    from lakesql.engine.spark.gateway import (
        connect,
        remember_classes,
        start_session,
        start_warm_session,
    )

    _redirect_python_logs(settings.log_file.with_suffix(".out"))
    if isinstance(jvm, WarmJvm):
        connect(*jvm.wait(say), jvm.process)
    elif jvm:
        connect(*wait_for_jvm(jvm), jvm.process)
    try:
        _check_sql_settings(settings)
        remember_classes()
        if isinstance(jvm, WarmJvm):
            spark = start_warm_session(*split_own(conf), is_new=jvm.is_new)
        else:
            spark = start_session(conf)
    except ProfileError:
        raise
    except Exception as error:
        check_java()
        raise _refused(error, settings) from None
    if _SHUFFLE_PARTITIONS not in conf:
        # the parallelism is known only now that the session is up
        spark.conf.set(_SHUFFLE_PARTITIONS, spark.sparkContext.defaultParallelism)
    return spark


def check_master(master: str, place: Place | None = None) -> None:
    """Refuse a master that Spark would take long to refuse, or would not explain.

    Raises ProfileError `spark-refused` if it is not a master, and `spark-unreachable`
    if nothing answers at the address of a standalone one: Spark would try for a minute,
    and then report only that its context was stopped.
    """
    if not _MASTER.fullmatch(master):
        raise ProfileError.of(
            "spark-refused",
            f"'{master}' is not a master of Spark's.",
            fix="Write local[*], local[4], spark://host:7077, yarn or k8s://https://host:443.",
            place=place,
        )
    if not master.startswith(_STANDALONE):
        return
    try:
        first_reachable(master.removeprefix(_STANDALONE))
    except ConnectionError as error:
        raise ProfileError.of(
            "spark-unreachable",
            f"Spark's master {master} does not take a connection.",
            why=str(error),
            place=place,
        ) from None


def check_none_is_open() -> None:
    """Refuse to open a session if this process has one open, which may be another
    program's.

    All sessions of a process share one SparkContext, so a second one would have the
    catalogs of the first: a command would read, write and drop other tables under the
    names of the target's.

    Raises ProfileError `spark-open`, and `RunError` (`java-ended`) if the Java of the
    open session has ended.
    """
    context = _spark_context()
    if context is None or context._active_spark_context is None:
        return
    check_java()
    raise ProfileError.of(
        "spark-open",
        "This process has a Spark session open.",
        why="The command would have that session's catalogs in the place of the target's.",
    )


_STANDALONE = "spark://"
_COUNT = r"([0-9]+|\*)"
_MASTER = re.compile(
    rf"local|local\[{_COUNT}(\s*,\s*[0-9]+)?\]|local-cluster\[.+\]|{_STANDALONE}.+|yarn|k8s://.+"
)


def _check_sql_settings(settings: SessionSettings) -> None:
    """Raise ProfileError `spark-refused` for each Spark SQL setting whose value is
    invalid.

    With such a setting pyspark would never return: to format the error it asks the
    session for a setting, which fails for the same reason.
    """
    given = {
        key: value
        for key, value in settings.conf.items()
        if key.startswith("spark.sql.")
    }
    if not given:
        return
    from lakesql.engine.spark.failure import read_cause
    from lakesql.engine.spark.gateway import java_class

    # loads the class, which registers the static settings
    java_class("java.lang.Class").forName(
        "org.apache.spark.sql.internal.StaticSQLConf$"
    )
    checked, problems = java_class("org.apache.spark.sql.internal.SQLConf")(), []
    for key, value in given.items():
        try:
            checked.setConfString(key, value)
        except Exception as error:
            what = f"Spark does not take the setting {key}: {read_cause(error)[1]}"
            problems.append(
                Problem("spark-refused", what, place=settings.places.get(key))
            )
    if problems:
        raise ProfileError(problems)


_GIVEN_UP = re.compile(r"Application has been killed\. Reason: (.+)")


def _refused(error: Exception, settings: SessionSettings) -> ProfileError:
    from lakesql.engine.spark.failure import read_cause

    _, what = read_cause(error)
    place = None
    if "stopped SparkContext" in what and (
        reasons := _GIVEN_UP.findall(settings.log_file.read_text(errors="replace"))
    ):
        what, place = reasons[-1], settings.places.get("spark.master")
    why = "logs/ holds all that it said."
    return ProfileError.of(
        "spark-refused", f"Spark does not start: {what}", why=why, place=place
    )


def close_session(spark: SparkSession, *, is_broken_off: bool = False) -> None:
    """End the session. A warm Java is left to the next command, unless work was broken
    off; if it has ended, there is nothing to end."""
    process = _java_process()
    if isinstance(process, WarmProcess):
        if is_broken_off or process.poll() is not None:
            process.end()
            _forget()
        else:
            _give_back(spark, process)
    elif _java_status(wait_s=0) is None:
        spark.stop()


def _give_back(spark: SparkSession, process: WarmProcess) -> None:
    from lakesql.engine.spark.gateway import leave_session

    try:
        is_in_order = leave_session(spark)
    except Exception:  # whatever it is, nobody else is to meet it
        is_in_order = False
    if is_in_order:
        process.give_back()
    else:
        process.end()
        _forget()


def _forget() -> None:
    """Make pyspark forget a Java that has ended, if it knows one."""
    if is_java_up():
        from lakesql.engine.spark.gateway import forget

        forget()


def kill_java() -> None:
    """End the session's Java at once, and all queries with it: nothing of what they
    write becomes visible."""
    process = _java_process()
    if isinstance(process, WarmProcess):
        process.end()
    elif process is not None:
        kill_jvm(process)


def check_java() -> None:
    """Raise `RunError` (`java-ended`) if the session's Java has ended: any other error
    is a consequence of that."""
    # the connection breaks some time before the process is gone
    status = _java_status(wait_s=0.5)
    if status is not None:
        raise _java_ended(status) from None


def check_warm() -> None:
    """Raise `RunError` (`java-ended`) if the warm Java of this command has ended, which
    the command has noticed only by models that failed.

    Java may take a second to end once its keeper is dead, and the keeper a moment to
    report that Java has ended. In both cases a model fails before the reason is known.
    """
    process = _java_process()
    if not isinstance(process, WarmProcess):
        return
    if not process.is_lost and not _answers():
        with suppress(subprocess.TimeoutExpired):
            process.wait(ANSWER_S)
    if process.is_lost:
        raise _java_ended(process.returncode)


def _answers() -> bool:
    """Whether Java answers a call."""
    from lakesql.engine.spark.gateway import java_class

    try:
        java_class("java.lang.System").currentTimeMillis()
    except Exception:  # py4j has many for a connection that is broken
        return False
    return True


def _java_ended(status: int | None) -> RunError:
    return RunError.of(
        "java-ended",
        f"Java ended with status {status}, and all queries with it.",
        why="Nothing of the batches that were being written is visible; the next run takes them up again.",
    )


def _java_status(wait_s: float) -> int | None:
    """The exit status of the session's Java; None if it still runs after `wait_s`
    seconds."""
    process = _java_process()
    if process is None:
        return None
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return None


def _java_process() -> subprocess.Popen[bytes] | WarmProcess | None:
    """The process of the session's Java; None if another program started it, or it is
    not started yet."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


THREAD_STACK = "-Xss32m"
"""The maximum stack size of each Java thread: Spark recurses through the expressions of
wide tables. A thread uses no memory for the part that it does not need."""


def build_conf(settings: SessionSettings) -> dict[str, str]:
    """The session's configuration: defaults, then the catalog, then the target's own
    settings, which win. Jars of the target are added to lakesql's."""
    conf = {
        "spark.app.name": settings.app_name,
        "spark.master": settings.master,
        **DEFAULTS,
    }
    conf["spark.sql.warehouse.dir"] = str(settings.home / "spark-warehouse")
    if _is_local(settings.master):
        conf |= LOCAL_DEFAULTS
        conf["spark.driver.memory"] = f"{default_memory_mb()}m"
    # a path without a scheme is local, even if a cluster's HDFS is configured
    if _conf_folders() and settings.master != "yarn":
        conf["spark.hadoop.fs.defaultFS"] = "file:///"
    conf = {**conf, **catalog_conf(settings.catalog), **settings.conf}
    if not _is_local(settings.master):
        of_executors = conf.get("spark.executor.extraJavaOptions", "")
        conf["spark.executor.extraJavaOptions"] = (
            f"{THREAD_STACK} {of_executors}".strip()
        )
        conf["spark.jars"] = ",".join(
            [*map(str, settings.jars), *filter(None, [conf.get("spark.jars")])]
        )
    return {
        "spark.redaction.regex": render_redaction(conf, find_secrets(os.environ)),
        **conf,
    }


def split_own(conf: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A configuration split into the settings of the SparkContext and those that each
    session has of its own: its catalogs, and what is redacted."""
    own = {key: value for key, value in conf.items() if key.startswith(_OF_A_SESSION)}
    return {key: value for key, value in conf.items() if key not in own}, own


_OF_A_SESSION = ("spark.sql.catalog.", "spark.redaction.regex")


def catalog_conf(catalog: Catalog) -> dict[str, str]:
    """The Spark settings of the catalog, and of S3 where Spark itself reads it. Raises
    ProfileError `catalog-uri`."""
    prefix = f"spark.sql.catalog.{catalog.name}"
    properties = {
        f"{prefix}.{key}": value for key, value in spark_properties(catalog).items()
    }
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **properties,
        **hadoop_properties(catalog),
    }


def render_redaction(conf: Mapping[str, str], secrets: Secrets) -> str:
    """The regular expression for the names of the settings whose values Spark's
    listings leave out."""
    names = [re.escape(key) for key, value in conf.items() if secrets.are_in(value)]
    return "|".join([_SENSITIVE, *(f"^{name}$" for name in names)])


_SENSITIVE = "(?i)secret|password|passwd|token|credential|access[.-]?key|session[.-]?key|private|sasl|jaas"


def activate(session: SparkSession) -> None:
    """Make this session the active one of the current thread, whose settings Spark uses
    for calls that name no session."""
    from lakesql.engine.spark.gateway import java_class

    java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(
        session._jsparkSession
    )


def new_session(spark: SparkSession) -> SparkSession:
    """A session on the same SparkContext with temporary views of its own, and with the
    settings that `spark` began with."""
    from lakesql.engine.spark.gateway import own_of, set_own

    session = spark.newSession()
    set_own(session, own_of(spark))
    session.conf.set(_SHUFFLE_PARTITIONS, str(spark.conf.get(_SHUFFLE_PARTITIONS)))
    return session


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def default_memory_mb() -> int:
    """Java's heap in MiB if the target sets none: half of the memory of this machine or
    container, from 1 to 4 GiB."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (bound := limit.read_text().strip()).isdigit():
        has = min(has, int(bound))
    return max(1024, min(4096, has // 2**21))


def build_launch(settings: SessionSettings, conf: Mapping[str, str]) -> Launch:
    """The command, environment and files of the Java process that a session with this
    configuration runs in.

    Raises ProfileError `secret-on-command-line`, and `spark-refused` for a memory size
    that Spark does not accept.
    """
    options = (
        [f"-Xmx{_heap(settings, conf['spark.driver.memory'])}"]
        if "spark.driver.memory" in conf
        else []
    )
    options += [THREAD_STACK]
    options += [FAST_COMPILER] if settings.is_brief else []
    for key in ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"):
        options += shlex.split(conf.get(key, ""))
    secrets = find_secrets(os.environ)
    if secrets.are_in(
        " ".join([*options, conf.get("spark.executor.extraJavaOptions", "")])
    ):
        raise ProfileError.of(
            "secret-on-command-line",
            "The target's spark.conf has a secret in an option of Java's.",
            why="Everybody on the machine can read it there, in the list of processes.",
        )
    environ = without_secrets(os.environ)
    if _is_local(settings.master):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # or Spark would look its own name up
    libraries = [
        conf.get("spark.driver.extraLibraryPath"),
        environ.get("LD_LIBRARY_PATH"),
    ]
    if libraries[0]:
        environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    # The catalog's properties hold secrets; Spark gets them through the connection, not
    # through a file.
    submit = {
        key: value
        for key, value in conf.items()
        if not key.startswith(("spark.sql.", "spark.hadoop."))
    }
    return Launch(
        java=settings.java,
        jars=settings.jars,
        class_path=os.pathsep.join(
            filter(None, [conf.get("spark.driver.extraClassPath"), *_conf_folders()])
        ),
        options=tuple(options),
        submit=submit,
        environ=environ,
        log_file=settings.log_file,
        home=settings.home,
        record=settings.record,
        secrets=secrets,
    )


def _conf_folders() -> list[str]:
    """The folders in which Spark and Hadoop look for a cluster's addresses."""
    return [
        folder
        for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
        if (folder := os.environ.get(name))
    ]


def _heap(settings: SessionSettings, memory: str) -> str:
    """Spark's memory size in the notation of Java's -Xmx. Spark's is in MiB without a
    unit, and its unit has one or two letters."""
    found = re.fullmatch(r"([0-9]+)(b|[kmgt]b?)?", memory.strip().lower())
    if found is None:
        raise ProfileError.of(
            "spark-refused",
            f"'{memory}' is not a size of memory as Spark takes it in spark.driver.memory.",
            fix="Write a whole number with a unit, such as 700m or 8g.",
            place=settings.places.get("spark.driver.memory"),
        )
    return found[1] + (found[2] or "m")[0].removesuffix("b")


def is_java_up() -> bool:
    """Whether an earlier session of this process has left its Java running."""
    context = _spark_context()
    return context is not None and context._gateway is not None


def _spark_context() -> type[SparkContext] | None:
    """pyspark's SparkContext class; None if this process has not imported it."""
    module = sys.modules.get("pyspark.core.context")
    return None if module is None else module.SparkContext


def _redirect_python_logs(output: Path) -> None:
    """Send to `output` what pyspark and py4j print on stderr in addition to the
    exceptions that they raise."""
    from pyspark.logger import PySparkLogger

    printing = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger")
        for kind in ("SQL", "DataFrame")
    ]
    for logger in [logging.getLogger("py4j"), *printing]:
        handler = logging.FileHandler(output, delay=True)
        handler.setFormatter(_SecretMasking())
        logger.handlers[:] = [handler]
        logger.propagate = False
    root = logging.getLogger()
    # py4j logs a broken connection here, in addition to the exception that it raises
    if not root.handlers:
        root.addHandler(logging.FileHandler(output, delay=True))
        root.handlers[-1].setFormatter(_SecretMasking())


class _SecretMasking(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return find_secrets(os.environ).redact(super().format(record))


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")
