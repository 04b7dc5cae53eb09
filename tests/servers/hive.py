"""A Hive metastore out of pyspark's own jars. What it knows is in Derby, and its tables
are in a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakesql.engine.spark.jars import spark_jars
from lakesql.engine.spark.java import find_java
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    accepts,
    free_ports,
    spawn,
    stop,
    wait_until,
)

STARTS_WITHIN_S = 180

_LOGS = """rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c %m%n
"""


class HiveMetastore:
    """Started, stopped and started again on the same port and the same files."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._output = directory, directory / "metastore.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._classes = f"{directory}:{spark_jars()}/*"
        (self._port,) = free_ports(1)
        self.uri = f"thrift://{LOOPBACK}:{self._port}"
        self.warehouse = f"file://{directory}/warehouse"
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}/metastore;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            # its default is not among the jars
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self.warehouse,
            # it needs a library that is not there either
            "hive.async.log.enabled": "false",
        }
        (directory / "hive-site.xml").write_text(_render(settings))
        (directory / "log4j2.properties").write_text(_LOGS)

    def start(self) -> None:
        """Return when it answers: in 10 s."""
        if not (self._directory / "metastore").exists():
            self._make_tables_of_locks()
        program = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        opens = [
            f"--add-opens=java.base/{package}=ALL-UNNAMED"
            for package in ("java.net", "java.lang")
        ]
        command: list[str | Path] = [
            find_java(os.environ).binary,
            "-Xmx384m",
            *JAVA_FLAGS,
            *opens,
            f"-Dderby.stream.error.file={self._directory}/derby.log",
            f"-Djava.io.tmpdir={self._directory}",
            f"-Dlog4j2.configurationFile={self._directory}/log4j2.properties",
            *("-cp", self._classes, program, "-p", str(self._port)),
        ]
        self._process = spawn(command, self._output)
        wait_until(
            lambda: accepts(self._port), self._process, self._output, STARTS_WITHIN_S
        )

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def _make_tables_of_locks(self) -> None:
        """Without them, a CREATE TABLE waits for minutes: the metastore makes all of
        its other tables by itself."""
        (py4j,) = spark_jars().glob("py4j-*.jar")
        port, token, process = launch_gateway(
            classpath=self._classes,
            jarpath=str(py4j),
            javaopts=[
                "-Xmx256m",
                f"-Dderby.stream.error.file={self._directory}/derby.log",
            ],
            java_path=str(find_java(os.environ).binary),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token)
        )
        try:
            conf = gateway.jvm.org.apache.hadoop.hive.conf.HiveConf()
            gateway.jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf)
        finally:
            gateway.shutdown()
            stop(process)  # or it keeps Derby's files


def _render(settings: dict[str, str]) -> str:
    properties = (
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    )
    return f"<configuration>{''.join(properties)}</configuration>"
