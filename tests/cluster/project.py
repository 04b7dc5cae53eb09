"""The shop on a cluster: small files of records, small batches, short triggers, and one
model more."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import yaml

from lakesql.cli.init import write_project
from tests.servers.cluster import CORES, Cluster
from tests.servers.process import LOOPBACK
from tests.shop import oracle

TOPICS = {
    "clicks": "shop.page_views",
    "customers": "shop.customers",
    "orders_of_customers": "shop.orders",
} | {"visits_per_day": "shop.page_views"}
"""The models that run, an append, two upserts of which one reads a table, and a
stateful one; and their topics."""

RECORDS_A_FILE = 30
RECORDS_A_BATCH = 300

# The customers' columns do not land: so the rows are those of `orders`, whenever it
# reads the table of customers.
ORDERS_OF_CUSTOMERS = """\
{{ config(mode='upsert', keys='order_id', sequence_by='updated_at', delete_when="status = 'purged'") }}
SELECT o.order_id, o.customer_id, o.amount, o.status, o.created_at, o.updated_at
FROM {{ stream('orders') }} AS o
LEFT JOIN {{ ref('customers') }} AS c ON c.customer_id = o.customer_id
"""


class Shop:
    """What `lakesql init` writes, with a cluster as its master. Half of its records
    arrive later, with `arrive`."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        self.directory = directory
        self.recorded = directory / "streams" / "recorded"
        self._later: list[Path] = []
        write_project(directory, "shop")
        (directory / "models" / "orders_of_customers.sql").write_text(
            ORDERS_OF_CUSTOMERS
        )
        self._edit("pyproject.toml", r'trigger = "1 minute"', "")
        self._edit(
            "pyproject.toml", r"\Z", '\n[tool.lakesql.models]\ntrigger = "1 second"\n'
        )
        self._edit("models/clicks.sql", r"trigger='10 seconds'", "trigger='1 second'")
        self._edit(
            "streams/shop.yml",
            r"max_per_batch: \d+",
            f"max_per_batch: {RECORDS_A_BATCH}",
        )
        self._write_profile(cluster)
        for topic in self.recorded.iterdir():
            self._divide(topic)

    def arrive(self) -> None:
        """Let the second half of all records arrive, each file at once."""
        for file in self._later:
            file.rename(file.with_suffix(".jsonl"))

    def batches_in_progress(self) -> dict[str, int]:
        """By model: the batch that its checkpoint has planned and is not done with."""
        newest = {model: self._newest_batches(model) for model in TOPICS}
        return {
            model: planned
            for model, (planned, done) in newest.items()
            if planned > done
        }

    def has_read_all(self, model: str) -> bool:
        """Whether the checkpoint of a model says that it is done with each file that is
        there."""
        planned, done = self._newest_batches(model)
        # by Spark, which may not have planned them yet
        seen = list(self._checkpoint(model).glob("sources/0/[0-9]*"))
        if planned != done or not seen:
            return False
        offset = json.loads(
            (self._checkpoint(model) / "offsets" / str(done))
            .read_text()
            .splitlines()[-1]
        )["logOffset"]
        logs = [file.read_text() for file in seen]
        files = (self.recorded / TOPICS[model]).glob("*.jsonl")
        return offset == max(map(_number, seen)) and all(
            any(f"/{file.name}" in log for log in logs) for file in files
        )

    def expected(self, model: str) -> list[oracle.Row]:
        """What the table holds when all is read, as plain Python says."""
        return oracle.expected_tables(self.recorded)[
            "orders" if model == "orders_of_customers" else model
        ]

    def _checkpoint(self, model: str) -> Path:
        return self.directory / ".lakesql" / "checkpoints" / model

    def _newest_batches(self, model: str) -> tuple[int, int]:
        """The newest batch that is planned, and the newest that is done; -1 for
        none."""
        done, planned = (
            _newest(self._checkpoint(model) / folder)
            for folder in ("commits", "offsets")
        )
        return planned, done

    def _divide(self, topic: Path) -> None:
        """The records of a topic in small files, in the order of their times as of
        their names."""
        lines = [
            line
            for file in sorted(topic.iterdir())
            for line in file.read_text("utf-8").splitlines(True)
        ]
        for file in topic.iterdir():
            file.unlink()
        for number in range(0, len(lines), RECORDS_A_FILE):
            is_later = number >= len(lines) // 2
            file = topic / f"part-{number:05d}.{'later' if is_later else 'jsonl'}"
            file.write_text("".join(lines[number : number + RECORDS_A_FILE]), "utf-8")
            os.utime(file, (time.time(), time.time() - 10_000 + number))
            self._later += [file] if is_later else []

    def _write_profile(self, cluster: Cluster) -> None:
        profiles = yaml.safe_load((self.directory / "profiles.yml").read_text())
        options = "-XX:TieredStopAtLevel=1"
        conf = {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": f"{options} -XX:ReservedCodeCacheSize=256m",
            "spark.executor.extraJavaOptions": options,
            "spark.cores.max": str(CORES),
            "spark.sql.shuffle.partitions": str(CORES),
        }
        profiles["shop"]["outputs"]["dev"]["spark"] = {
            "master": cluster.master,
            "conf": conf,
        }
        (self.directory / "profiles.yml").write_text(yaml.safe_dump(profiles))

    def _edit(self, name: str, pattern: str, text: str) -> None:
        file = self.directory / name
        edited, count = re.subn(pattern, text, file.read_text())
        assert count, f"{name} has no {pattern}"
        file.write_text(edited)


def _newest(folder: Path) -> int:
    return max(map(_number, folder.glob("[0-9]*")), default=-1)


def _number(file: Path) -> int:
    """Of a file of a log of Spark's, also of one that sums up those before it."""
    return int(file.name.partition(".")[0])
