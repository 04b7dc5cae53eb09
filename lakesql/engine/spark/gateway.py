"""How Python reaches Java: the connection to the session's Java, and its classes."""

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
"""The classes that pyspark looks up again and again: by their bare names, and by their
full ones."""


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
"""The packages that pyspark imports into each Java that it starts itself, without MLlib
and Hive."""


def connect(
    port: int, secret: str, process: subprocess.Popen[bytes] | WarmProcess
) -> None:
    """Connect pyspark to a Java that listens on this port, with a Java thread for each
    Python thread.

    pyspark's own way goes through this process's environment, which other threads read
    and pass on meanwhile.
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
    """Keep pyspark from importing its test tools, and pandas with them, which it does
    at the first literal.

    It only asks them whether numpy is installed. Any other use imports them.
    """
    sys.modules.setdefault(_TEST_TOOLS, _TestTools(_TEST_TOOLS))


_TEST_TOOLS = "pyspark.testing.utils"


class _TestTools(ModuleType):
    """A placeholder for pyspark's test tools."""

    @property
    def have_numpy(self) -> bool:
        """Whether a value may be one of numpy: not unless numpy has been imported."""
        return "numpy" in sys.modules

    def __getattr__(self, name: str) -> Any:
        # Python asks for these when something is imported from a module
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_TEST_TOOLS) is self:
            del sys.modules[_TEST_TOOLS]
        return getattr(import_module(_TEST_TOOLS), name)


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """A session with this configuration, which is sent to Java in one call: pyspark
    would make five calls for each setting.

    pyspark refuses it if there is a SparkContext, whose configuration would be another
    one.
    """
    given = java_class("java.util.Properties")()
    given.load(java_class("java.io.StringReader")(render_properties(conf)))
    settings = java_class("org.apache.spark.SparkConf")()
    settings.setAll(java_class("scala.jdk.javaapi.CollectionConverters").asScala(given))
    return SparkSession(SparkContext(conf=_KnownConf(settings, conf)))


def start_warm_session(
    conf: Mapping[str, str], own: Mapping[str, str], *, is_new: bool
) -> SparkSession:
    """A session of this command in a Java that is left to the next command, with the
    settings `own` in addition to `conf`.

    The SparkContext is that of the former command, unless Java `is_new`. Temporary
    views, settings, functions and catalog caches belong to a session, and the base
    session from which all sessions are derived is never used itself.
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
    # so that Python workers of the former command are not reused
    context.environment["LAKESQL_COMMAND"] = uuid4().hex
    SparkSession._instantiatedSession = None
    session = SparkSession(context, base.newSession())
    vars(SparkContext._gateway).update(_lakesql_base=base)
    set_own(session, own)
    return session


def set_own(session: SparkSession, own: Mapping[str, str]) -> None:
    """Set settings of a session, and remember them for sessions derived from it."""
    settings = session._jsparkSession.sessionState().conf()
    for key, value in own.items():
        settings.setConfString(key, value)
    vars(session)["_lakesql_own"] = own


def own_of(session: SparkSession) -> Mapping[str, str]:
    """The settings that `set_own` has remembered."""
    found: Mapping[str, str] = vars(session).get("_lakesql_own", {})
    return found


def leave_session(session: SparkSession) -> bool:
    """Prepare the SparkContext for the next command, and make pyspark forget its Java.
    Returns whether the next command can use it.

    Python workers are ended, as files that they have loaded may change. If a query
    still runs, Java cannot be used again.
    """
    context, gateway = session.sparkContext, SparkContext._gateway
    assert gateway is not None
    # Java has called back into this process, and closing would wait for it
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
    """A Java configuration whose settings are known in Python too."""

    def __init__(self, settings: Any, known: Mapping[str, str]) -> None:
        super().__init__(_jconf=settings)
        self._known = known

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802  pyspark's name
        return [*self._known.items()]


def forget() -> None:
    """Make pyspark forget a Java that has ended."""
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
    """The items of a Java list. Iterating over it in Python ends with an exception of
    Java's, which takes pyspark as long to examine as reading hundreds of items."""
    return [values.get(index) for index in range(values.size())]


def java_class(name: str, jvm: Any = None) -> Any:
    """A Java class by its full name, in the session's Java or in that of `jvm`.

    `jvm.org.apache…` asks Java at each dot, and Java searches all its jars. Here each
    member of a class is looked up only once.
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
    """Whether Hadoop reports that a file or a folder does not exist."""
    return "FileNotFoundException" in str(error.java_exception.getClass().getName())


def remember_classes() -> None:
    """Make pyspark look up the classes that each expression needs only once: Java
    searches all jars for a bare name."""
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
    """A class whose static methods are looked up in Java only once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found
