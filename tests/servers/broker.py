"""A real Kafka broker, one node that is its own controller, with its own folder and
ports."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from lakesql.engine.spark.java import find_java
from tests.servers.jars import class_path
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    free_ports,
    kill,
    spawn,
    stop,
    wait_until,
)

USER, PASSWORD = "reader", "LeMotDePasse"
"""Whom the listener `SASL` knows."""
STORE_PASSWORD = "changeit"
STARTS_WITHIN_S = 180


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be sent. `timestamp_ms` None is now, `partition` None is the
    partition of the key."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def jaas(
    password: str = PASSWORD, user: str = USER, module: str = "plain.Plain"
) -> str:
    """A client's login, as `sasl.jaas.config` takes it."""
    return f'org.apache.kafka.common.security.{module}LoginModule required username="{user}" password="{password}";'


class Broker:
    """Started, stopped, killed and started again on the same ports and the same files.

    It has three listeners: `servers` in plain text, `sasl_servers` for `USER`, and
    `ssl_servers` with a certificate that only `trust_store` trusts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = directory / "broker.log"
        plain, sasl, ssl, controller = free_ports(4)
        self.servers = f"{LOOPBACK}:{plain}"
        self.sasl_servers = f"{LOOPBACK}:{sasl}"
        self.ssl_servers = f"{LOOPBACK}:{ssl}"
        self.trust_store = directory / "trust.p12"
        self._make_certificate()
        properties = _PROPERTIES.format(
            plain=plain,
            sasl=sasl,
            ssl=ssl,
            controller=controller,
            directory=directory,
            user=USER,
            password=PASSWORD,
            store_password=STORE_PASSWORD,
        )
        self._properties = directory / "server.properties"
        self._properties.write_text(properties)
        self._java = find_java(os.environ).binary
        self._class_path = class_path("kafka")
        self._format()

    def start(self) -> None:
        """Return when it answers: in 2 s, and after a crash in 4 s."""
        memory = "-Xmx256m"
        command = [
            self._java,
            memory,
            *JAVA_FLAGS,
            "-cp",
            self._class_path,
            "kafka.Kafka",
            self._properties,
        ]
        self._process = spawn(command, self._output)
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        kill(self._process)

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """A topic; `config` with `_` for `.`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._ask(
            lambda admin: admin.create_topics(
                [NewTopic(name, partitions, 1, config=settings)]
            )
        )
        while name not in self._admin().list_topics(timeout=10).topics:
            pass

    def delete_topic(self, name: str) -> None:
        self._ask(lambda admin: admin.delete_topics([name], operation_timeout=10))
        while name in self._admin().list_topics(timeout=10).topics:
            pass

    def add_partitions(self, name: str, total: int) -> None:
        self._ask(lambda admin: admin.create_partitions([NewPartitions(name, total)]))
        while (
            len(self._admin().list_topics(name, timeout=10).topics[name].partitions)
            < total
        ):
            pass

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """What retention does: the records before an offset are gone."""
        self._ask(
            lambda admin: admin.delete_records(
                [TopicPartition(topic, partition, before)]
            )
        )

    def produce(
        self, topic: str, messages: Iterable[Message | bytes], **config: str
    ) -> None:
        """Send messages, in order within a partition, and wait until the broker has
        them all."""
        _send(self._producer(config), topic, messages)

    def begin_transaction(
        self, topic: str, messages: Iterable[Message | bytes]
    ) -> Producer:
        """Send messages in a transaction, which the caller commits or aborts."""
        producer = self._producer({"transactional.id": str(uuid.uuid4())})
        producer.init_transactions(30)
        producer.begin_transaction()
        _send(producer, topic, messages)
        return producer

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """The keys and values of all records of a topic's first partition."""
        place = TopicPartition(topic, 0, 0)
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": str(uuid.uuid4())}
        )
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < end:
            for record in consumer.consume(end - len(found), timeout=1):
                assert record.error() is None, record.error()
                found.append((record.key(), record.value()))
        consumer.close()
        return found

    def _producer(self, config: dict[str, str]) -> Producer:
        settings = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "log_level": 0,
        }
        return Producer(
            {**settings, "queue.buffering.max.messages": 1_000_000, **config}
        )

    # Its files

    def _answers(self) -> bool:
        try:
            return bool(self._admin().list_topics(timeout=1).brokers)
        except Exception:  # confluent_kafka has one exception for everything
            return False

    def _ask(self, ask: Callable[[AdminClient], dict[Any, Any]]) -> None:
        admin = self._admin()  # must live until its answers are there
        for future in ask(admin).values():
            future.result(30)

    def _admin(self) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": self.servers,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [
            self._java,
            "-Xmx128m",
            *JAVA_FLAGS,
            "-cp",
            self._class_path,
            "kafka.tools.StorageTool",
            "format",
        ]
        scram = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        # The id may begin with a -, which must not look like an option.
        _run(
            [
                *command,
                f"--cluster-id={cluster}",
                "-c",
                self._properties,
                "--add-scram",
                scram,
            ]
        )

    def _make_certificate(self) -> None:
        key_store, certificate = (
            self.directory / "key.p12",
            self.directory / "broker.pem",
        )
        common = (
            "-storetype",
            "PKCS12",
            "-storepass",
            STORE_PASSWORD,
            "-noprompt",
            "-alias",
            "broker",
        )
        keytool = find_java(os.environ).home / "bin" / "keytool"
        name = (
            "-dname",
            "CN=localhost",
            "-ext",
            f"SAN=IP:{LOOPBACK},DNS:localhost",
            "-validity",
            "3650",
        )
        _run(
            [
                keytool,
                "-genkeypair",
                "-keyalg",
                "EC",
                *name,
                "-keystore",
                key_store,
                *common,
            ]
        )
        _run(
            [
                keytool,
                "-exportcert",
                "-rfc",
                "-file",
                certificate,
                "-keystore",
                key_store,
                *common,
            ]
        )
        _run(
            [
                keytool,
                "-importcert",
                "-file",
                certificate,
                "-keystore",
                self.trust_store,
                *common,
            ]
        )


_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL
inter.broker.listener.name=PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="admin" password="admin" user_{user}="{password}";
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.ssl.ssl.keystore.location={directory}/key.p12
listener.name.ssl.ssl.keystore.password={store_password}
listener.name.ssl.ssl.keystore.type=PKCS12
log.dirs={directory}/data
auto.create.topics.enable=false
log.cleaner.enable=false
log.retention.ms=-1
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""
# After SIGKILL the broker is let in again only when its old session has lapsed: hence
# the short one.


def _send(producer: Producer, topic: str, messages: Iterable[Message | bytes]) -> None:
    failed: list[Any] = []
    for message in messages:
        sent = message if isinstance(message, Message) else Message(message)
        optional: dict[str, Any] = (
            {"headers": list(sent.headers)} if sent.headers else {}
        )
        optional |= {"partition": sent.partition} if sent.partition is not None else {}
        optional |= (
            {"timestamp": sent.timestamp_ms} if sent.timestamp_ms is not None else {}
        )
        optional |= {
            "on_delivery": lambda error, _: failed.append(error) if error else None
        }
        while True:
            try:
                producer.produce(topic, value=sent.value, key=sent.key, **optional)
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(60)
    assert not left and not failed, f"{left} not sent, {failed[:3]}"


def _run(command: list[Any]) -> None:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command[0]}:\n{done.stdout}{done.stderr}"
