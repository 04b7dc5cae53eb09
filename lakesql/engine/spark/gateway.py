"""Java's classes, as Python reaches them in the session's own Java."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any
from uuid import uuid4

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import JavaClass, JavaMember, java_import
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from lakesql.engine.spark.jvm import render_properties
from lakesql.engine.spark.warm import WarmProcess

_BARE = {
    "PythonForeachBatchHelper": "org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper",
    "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
}
_WHOLE = ("org.apache.spark.sql.functions", "org.apache.spark.sql.classic.SparkSession")
"""The classes that pyspark asks for again and again: by their bare names, and by their
whole ones."""


_IMPORTED = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "scala.Tuple2",
)
"""What pyspark imports into each Java that it starts itself, but for MLlib and Hive."""


def connect(
    port: int, secret: str, process: subprocess.Popen[bytes] | WarmProcess
) -> None:
    """Let pyspark use a Java that listens there, in a thread of Java's for each of
    Python's.

    pyspark's own way goes through this process's environment, which others read
    meanwhile and pass on.
    """
    _spare_test_tools()
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = process  # keeps Java's stdin open, or the connection to its keeper
    for name in _IMPORTED:
        java_import(gateway.jvm, name)
    SparkContext._ensure_initialized(gateway=gateway)


def _spare_test_tools() -> None:
    """Let pyspark not import its test tools, and pandas with them, which it does at the
    first literal.

    It asks them whether there is numpy. Whoever wants something else of them gets them.
    """
    sys.modules.setdefault(_TEST_TOOLS, _TestTools(_TEST_TOOLS))


_TEST_TOOLS = "pyspark.testing.utils"


class _TestTools(ModuleType):
    """Stands where pyspark's test tools will be."""

    @property
    def have_numpy(self) -> bool:
        """Whether a value may be numpy's: nobody has one who has not imported it."""
        return "numpy" in sys.modules

    def __getattr__(self, name: str) -> Any:
        # Python's own questions when something is imported of a module
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_TEST_TOOLS) is self:
            del sys.modules[_TEST_TOOLS]
        return getattr(import_module(_TEST_TOOLS), name)


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """A session with this configuration, of which Java is told at once: pyspark would
    ask five times for each setting.

    pyspark refuses it where there is a SparkContext, whose configuration would be
    another one.
    """
    given = java_class("java.util.Properties")()
    given.load(java_class("java.io.StringReader")(render_properties(conf)))
    settings = java_class("org.apache.spark.SparkConf")()
    settings.setAll(java_class("scala.jdk.javaapi.CollectionConverters").asScala(given))
    return SparkSession(SparkContext(conf=_KnownConf(settings, conf)))


def start_warm_session(
    conf: Mapping[str, str], own: Mapping[str, str], *, is_new: bool
) -> SparkSession:
    """A session of this command's in a Java that is left to the next one, with the
    settings `own` beside `conf`.

    The SparkContext is that of the command before, unless Java `is_new`. Temporary
    views, settings, functions and caches of catalogs are of a session, and the session
    that all of them come of is never used.
    """
    if is_new:
        base = start_session(conf)._jsparkSession
        context = SparkContext.getOrCreate()
    else:
        java = java_class("org.apache.spark.SparkContext").getOrCreate()
        known = _KnownConf(java.getConf(), conf)
        context = SparkContext(
            conf=known,
            jsc=java_class("org.apache.spark.api.java.JavaSparkContext")(java),
        )
        base = java_class(_SESSION).getDefaultSession().get()
    # so that no worker in Python is one of the command before
    context.environment["LAKESQL_COMMAND"] = uuid4().hex
    SparkSession._instantiatedSession = None
    session = SparkSession(context, base.newSession())
    vars(SparkContext._gateway).update(_lakesql_base=base)
    set_own(session, own)
    return session


def set_own(session: SparkSession, own: Mapping[str, str]) -> None:
    """Give a session settings of its own, and keep them for those that come of it."""
    settings = session._jsparkSession.sessionState().conf()
    for key, value in own.items():
        settings.setConfString(key, value)
    vars(session)["_lakesql_own"] = own


def own_of(session: SparkSession) -> Mapping[str, str]:
    """The settings of `set_own`."""
    found: Mapping[str, str] = vars(session).get("_lakesql_own", {})
    return found


def leave_session(session: SparkSession) -> bool:
    """Leave the SparkContext as a next command finds it, and let pyspark forget its
    Java; whether all is in order.

    Workers in Python end, as they have loaded files that may be others then. Where a
    query still runs, nothing is in order.
    """
    context, gateway = session.sparkContext, SparkContext._gateway
    assert gateway is not None
    # Java has called this process, and would be waited for
    if gateway._callback_server is not None:
        return False
    shared = session._jsparkSession.sharedState()
    is_quiet = bool(shared.activeStreamingQueries().isEmpty())
    shared.cacheManager().clearCache()
    for process in items_of(
        java_class("java.lang.ProcessHandle").current().descendants().toList()
    ):
        process.destroyForcibly()
    sessions = java_class(_SESSION)
    sessions.setDefaultSession(vars(gateway)["_lakesql_base"])
    sessions.clearActiveSession()
    context._jsc = None  # so that the SparkContext of Java goes on
    context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    gateway.close(keep_callback_server=True)
    forget()
    return is_quiet


_SESSION = "org.apache.spark.sql.classic.SparkSession"


class _KnownConf(SparkConf):
    """A configuration of Java's whose settings are known here too."""

    def __init__(self, settings: Any, known: Mapping[str, str]) -> None:
        super().__init__(_jconf=settings)
        self._known = known

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802  pyspark's name
        return [*self._known.items()]


def forget() -> None:
    """Let pyspark forget a Java that was ended."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = (
        None
    )


def array_of(name: str, values: Sequence[Any]) -> Any:
    """A Java array of this class."""
    gateway = SparkContext._gateway
    assert gateway is not None
    array = gateway.new_array(java_class(name), len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def items_of(values: Any) -> list[Any]:
    """The items of a Java list. Python's own way goes on until Java fails, and pyspark
    looks at what it has failed of for as long as it takes to ask for hundreds of
    them."""
    return [values.get(index) for index in range(values.size())]


def java_class(name: str, jvm: Any = None) -> Any:
    """A class of Java's by its whole name, in the session's Java or in that of a `jvm`.

    `jvm.org.apache…` asks Java at each dot, and Java all its jars. What a name in a
    class is, Java is asked once.
    """
    if jvm is None:
        assert SparkContext._gateway is not None
        jvm = SparkContext._gateway.jvm
    client = jvm._gateway_client
    found = vars(client).setdefault("_lakesql_classes", {})
    if name not in found:
        found[name] = _Remembering(name, client)
    return found[name]


def is_missing_file(error: Py4JJavaError) -> bool:
    """Whether Hadoop says that a file or a folder is not there."""
    return "FileNotFoundException" in str(error.java_exception.getClass().getName())


def remember_classes() -> None:
    """Let pyspark ask once for the classes that each expression needs: Java looks a
    bare name up in all jars."""
    assert SparkContext._gateway is not None
    jvm = SparkContext._gateway.jvm
    names = {**_BARE, **{name: name for name in _WHOLE}}
    vars(jvm).update(
        {
            name: _Remembering(whole, jvm._gateway_client)
            for name, whole in names.items()
        }
    )


class _Remembering(JavaClass):  # type: ignore[misc]
    """A class that asks Java once for each static method."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found
