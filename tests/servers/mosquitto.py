"""Mosquitto, of Debian: an MQTT broker that keeps all that a session has not
acknowledged."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.servers.process import LOOPBACK, accepts, free_ports, spawn, stop, wait_until

STARTS_WITHIN_S = 20
ACKNOWLEDGED_WITHIN_S = 30


class Mosquitto:
    """Started, killed and stopped; what it has kept stays in its folder."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)
        self.url = f"mqtt://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Return when it listens."""
        lines = [
            "user root",
            f"listener {self.port} {LOOPBACK}",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self._directory}/",
            "autosave_interval 1",
            "max_inflight_messages 0",
            "max_queued_messages 0",
        ]
        conf, output = (
            self._directory / "mosquitto.conf",
            self._directory / "mosquitto.log",
        )
        conf.write_text("\n".join([*lines, ""]))
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        self._process = spawn(
            ["mosquitto", "-c", conf], output, {**os.environ, "PATH": path}
        )
        wait_until(lambda: accepts(self.port), self._process, output, STARTS_WITHIN_S)

    def send(self, messages: Iterable[tuple[str, str]], retain: bool = False) -> None:
        """Publish values to topics; each is acknowledged before the next one is
        sent."""
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.connect(LOOPBACK, self.port)
        client.loop_start()
        for topic, value in messages:
            client.publish(topic, value, qos=1, retain=retain).wait_for_publish(
                ACKNOWLEDGED_WITHIN_S
            )
        client.disconnect()
        client.loop_stop()

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)
