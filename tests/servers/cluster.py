"""A Spark standalone cluster on loopback: a master and one worker, from the jars that
pyspark brings."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path

from lakesql.engine.spark.jars import spark_jars
from lakesql.engine.spark.java import find_java
from lakesql.progress.holder import Process
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    free_ports,
    kill,
    kill_all,
    spawn,
    stop,
    wait_until,
)

CORES = 3
"""What the worker says that it has."""
STARTS_WITHIN_S = 60
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_SETTINGS = ("-Dspark.master.rest.enabled=false",)  # it would take port 6066


class Cluster:
    """Started and stopped. Its worker, and the executors that this starts, can be
    killed meanwhile.

    What the processes print is in `directory`: `master.log`, `worker.log`, and below
    `work` the files of executors.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._port, self._ui_port = free_ports(2)
        self.master = f"spark://{LOOPBACK}:{self._port}"
        self._master: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._executors: list[Process] = []

    def start(self) -> None:
        """Return when the master has a worker: in 4 s."""
        self._master = self._spawn(
            *(
                "master.Master",
                "--host",
                LOOPBACK,
                "--port",
                str(self._port),
                "--webui-port",
                str(self._ui_port),
            )
        )
        wait_until(
            lambda: self._workers() == 0,
            self._master,
            self.directory / "master.log",
            STARTS_WITHIN_S,
        )
        self.start_worker()

    def start_worker(self) -> None:
        """A worker, in place of one that is gone; return when the master knows it."""
        sizes = ("--cores", str(CORES), "--memory", "2g")
        place = (
            "--host",
            LOOPBACK,
            "--webui-port",
            "0",
            "--work-dir",
            str(self.directory / "work"),
        )
        self._worker = self._spawn("worker.Worker", *place, *sizes, self.master)
        wait_until(
            lambda: self._workers() == 1,
            self._worker,
            self.directory / "worker.log",
            STARTS_WITHIN_S,
        )

    def stop(self) -> None:
        """End the worker with its executors, and the master; nothing where they do not
        run."""
        self._executors += self.executors()
        for process in (self._worker, self._master):
            if process is not None:
                stop(process)
        kill_all(self._executors)

    def executors(self) -> list[Process]:
        """The executors that run now: children of the worker."""
        if self._worker is None:
            return []
        worker = self._worker.pid
        try:
            children = Path(f"/proc/{worker}/task").glob("*/children")
            pids = {int(pid) for file in children for pid in file.read_text().split()}
        except OSError:  # it has ended
            return []
        return [Process.now(pid) for pid in sorted(pids) if EXECUTOR in _command(pid)]

    def kill_executors(self) -> list[Process]:
        """SIGKILL to the executors, for which the worker starts others; which they
        were."""
        executors = self.executors()
        assert executors, "there is no executor"
        kill_all(executors)
        return executors

    def kill_worker(self) -> None:
        """SIGKILL to the worker and its executors at once, as a machine that fails;
        return when the master knows it."""
        assert self._worker is not None and self._master is not None
        executors = self.executors()
        kill(self._worker)
        kill_all(executors)
        wait_until(
            lambda: self._workers() == 0,
            self._master,
            self.directory / "master.log",
            STARTS_WITHIN_S,
        )

    def _workers(self) -> int | None:
        """How many workers the master has; None while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://{LOOPBACK}:{self._ui_port}/json/", timeout=2
            ) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return None

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        java, name = find_java(os.environ), program.partition(".")[0]
        command = [
            java.binary,
            "-Xmx256m",
            *JAVA_FLAGS,
            *_SETTINGS,
            "-cp",
            spark_jars() / "*",
        ]
        command += [f"org.apache.spark.deploy.{program}", *arguments]
        # of the executors too
        home = {"SPARK_HOME": str(spark_jars().parent), "JAVA_HOME": str(java.home)}
        environ = {
            **os.environ,
            **home,
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": LOOPBACK,
        }
        return spawn(command, self.directory / f"{name}.log", environ)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
