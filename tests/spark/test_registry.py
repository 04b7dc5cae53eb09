"""Streams whose values name schemas of a registry, which a folder of schemas stands
for."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.batch.sample import preview_rows
from lakesql.engine.sources.broker import Brokers
from lakesql.errors import ProjectError
from lakesql.events import BatchCommitted
from lakesql.run.streams.bind import bind_select
from tests.servers.certificates import Authority, server_context
from tests.servers.memory_registry import open_memory_registry
from tests.spark.project import Project, in_bytes, use_schema_folder

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}


def record(
    *fields: Mapping[str, Any], name: str = "shop.orders.Order"
) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


V1 = record(
    field("id", "int"),
    field("cust", ["null", "string"], default=None),
    field("amount", DECIMAL),
    field("at", {"type": "long", "logicalType": "timestamp-millis"}),
    field("state", {"type": "enum", "name": "State", "symbols": ["new", "old"]}),
    field("gone", "string"),
)
V2 = record(
    *V1["fields"][:5],
    field("country", "string", default="NL"),
)
V3 = record(
    field("id", "long"),
    field("customer", ["null", "string"], aliases=["cust"], default=None),
    field("amount", DECIMAL),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("state", {"type": "enum", "name": "State", "symbols": ["new", "paid"]}),
    field("country", "string", default="NL"),
    field("tags", {"type": "array", "items": "string"}, default=[]),
)
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "customer": "string",
    "amount": "decimal(12,2)",
    "at": "timestamp",
    "state": "string",
    "country": "string",
    "tags": "array<string>",
}


COUNTED = "SELECT count(*) AS n, window(at, '1 hour') AS hour FROM {} GROUP BY window(at, '1 hour')"


def body(schema: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(
        written, fastavro.parse_schema(json.loads(json.dumps(schema))), row
    )
    return written.getvalue()


def framed(id_: int, content: bytes, size: int = 4) -> bytes:
    return b"\0" + id_.to_bytes(size, "big") + content


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    """A project whose registry is a folder."""
    project = new_project()
    use_schema_folder(project)
    return project


def register(project: Project, id_: int, schema: Any) -> None:
    project.write(f"schemas/{id_}.avsc", json.dumps(schema))


def declare(
    project: Project, columns: Mapping[str, Any] = COLUMNS, **options: Any
) -> None:
    project.stream("orders", columns, format="avro", registry="schemas", **options)


def test_each_record_is_read_by_the_schema_it_was_written_with(
    project: Project,
) -> None:
    for id_, schema in ((7, V1), (9, V2), (300, V3)):
        register(project, id_, schema)
    declare(project)
    project.model("landed", "SELECT * FROM {orders}", mode="append")
    base = {"amount": Decimal("12.50"), "at": AT}
    values = []
    for number in range(0, 30, 3):
        values += [
            framed(
                7,
                body(
                    V1,
                    {
                        **base,
                        "id": number,
                        "cust": f"c{number}",
                        "state": "old",
                        "gone": "x",
                    },
                ),
            ),
            framed(
                9,
                body(
                    V2,
                    {
                        **base,
                        "id": number + 1,
                        "cust": None,
                        "state": "new",
                        "country": "DE",
                    },
                ),
            ),
            framed(
                300,
                body(
                    V3,
                    {
                        **base,
                        "id": number + 2,
                        "customer": "c",
                        "state": "paid",
                        "country": "BE",
                        "tags": ["a"],
                    },
                ),
            ),
        ]
    project.record("orders", map(in_bytes, values))
    project.run().check()
    rows = project.rows("landed", "id")
    expected = []
    for number in range(0, 30, 3):
        same = {"amount": Decimal("12.50"), "at": AT}
        expected += [
            {
                "id": number,
                "customer": f"c{number}",
                **same,
                "state": "old",
                "country": "NL",
                "tags": [],
            },
            {
                "id": number + 1,
                "customer": None,
                **same,
                "state": "new",
                "country": "DE",
                "tags": [],
            },
            {
                "id": number + 2,
                "customer": "c",
                **same,
                "state": "paid",
                "country": "BE",
                "tags": ["a"],
            },
        ]
    assert rows == expected


def test_what_cannot_be_read_is_a_dead_letter_that_says_why(project: Project) -> None:
    register(project, 7, V1)
    register(project, 8, "string")
    declare(project)
    project.model("landed", "SELECT id FROM {orders}", mode="append")
    good = body(
        V1, {"id": 1, "amount": Decimal("1.00"), "at": AT, "state": "new", "gone": ""}
    )
    bad = {
        framed(77, good): "schema id 77 is not in the registry",
        framed(8, b"\2a"): "schema id 8 is the schema of a string, not of a record",
        framed(7, good[:-3]): "not a record of the Avro schema",
        framed(7, good + b"x"): "not a record of the Avro schema",
        framed(
            7, good, 8
        ): "schema id 0 is not in the registry: an id of eight bytes begins so too, which "
        "`wire: apicurio` reads",
        b'{"id":1}': "it does not begin with a byte 0 and the 4 bytes of a schema's id",
        b"\0\0\0": "it does not begin with a byte 0 and the 4 bytes of a schema's id",
    }
    project.record("orders", map(in_bytes, [framed(7, good), *bad, framed(7, good)]))
    project.run().check()
    assert [row["id"] for row in project.rows("landed")] == [1, 1]
    letters = project.rows("landed__dead_letter")
    assert {row["value"]: row["detail"] for row in letters} == bad
    assert {row["reason"] for row in letters} == {"unparsable"}


def test_ids_that_are_new_while_the_model_runs_are_looked_up_and_kept(
    project: Project,
) -> None:
    register(project, 7, V1)
    declare(project, max_per_batch=1)
    project.model("landed", "SELECT id, country FROM {orders}", mode="append")
    row = {"amount": Decimal("1.00"), "at": AT, "state": "new"}
    project.record(
        "orders", [in_bytes(framed(7, body(V1, {**row, "id": 1, "gone": ""})))]
    )
    register(project, 9, V2)
    project.record(
        "orders", [in_bytes(framed(9, body(V2, {**row, "id": 2, "country": "DE"})))]
    )
    ran = project.run().check()
    assert len(ran.of(BatchCommitted)) == 2
    assert project.rows("landed", "id") == [
        {"id": 1, "country": None},
        {"id": 2, "country": "DE"},
    ]
    for file in (project.directory / "schemas").iterdir():
        file.unlink()
    project.record(
        "orders", [in_bytes(framed(7, body(V1, {**row, "id": 3, "gone": ""})))]
    )
    project.run().check()
    assert project.rows("landed", "id")[-1] == {"id": 3, "country": "NL"}


def header(of: str, id_: int, size: int = 8) -> list[Any]:
    """A header of Apicurio's serializers, as a recorded line has it."""
    return [
        f"apicurio.value.{of}",
        None,
        base64.b64encode(id_.to_bytes(size, "big")).decode(),
    ]


@pytest.mark.parametrize(("wire", "size"), [("apicurio", 8), ("apicurio_headers", 0)])
def test_other_wire_forms(project: Project, wire: str, size: int) -> None:
    id_ = 2**40 + 7
    register(project, id_, V1)
    declare(project, wire=wire)
    project.model("landed", "SELECT id, customer FROM {orders}", mode="append")
    content = body(
        V1,
        {
            "id": 1,
            "cust": "c",
            "amount": Decimal("1.00"),
            "at": AT,
            "state": "new",
            "gone": "",
        },
    )
    headers = [header("contentId", id_)]
    none = b"\0" + b"\xff" * 8 + content  # no id is as high
    values = [framed(id_, content, 8) if size else content, none]
    project.record(
        "orders",
        [
            in_bytes(value, headers=[] if size else headers)
            for value in values[: 1 + bool(size)]
        ],
    )
    project.run().check()
    # The column's former name is said by a schema that has not been seen.
    assert project.rows("landed") == [{"id": 1, "customer": None}]
    assert project.reasons("landed") == ({"unparsable": 1} if size else {})


def test_global_ids_of_apicurio_are_counted_apart(project: Project) -> None:
    """Content id 7 and global id 7 are two schemas."""
    register(project, 7, V1)
    project.write("schemas/global-7.avsc", json.dumps(V3))
    declare(project, wire="apicurio_headers")
    project.model("landed", "SELECT id, customer, country FROM {orders}", mode="append")
    base = {"amount": Decimal("1.00"), "at": AT, "state": "new"}
    old = body(V1, {**base, "id": 1, "cust": "c", "gone": ""})
    new = body(V3, {**base, "id": 2, "customer": "g", "country": "BE", "tags": []})
    content, of_global = header("contentId", 7), header("globalId", 7)
    lines = [
        in_bytes(old, headers=[content]),
        in_bytes(new, headers=[of_global]),
        in_bytes(old, headers=[of_global, content]),
    ]
    wrong = {
        b"a": ([header("globalId", 8)], "schema of global id 8 is not in the registry"),
        b"b": ([], NAMELESS),
        b"c": ([header("globalId", 7, 9)], NAMELESS),
        b"d": ([header("contentId", 7, 4)], NAMELESS),
    }
    project.record(
        "orders",
        [
            *lines,
            *(
                in_bytes(value, headers=headers)
                for value, (headers, _) in wrong.items()
            ),
        ],
    )
    project.run().check()
    rows = [
        (row["id"], row["customer"], row["country"])
        for row in project.rows("landed", "id")
    ]
    assert rows == [(1, "c", "NL"), (1, "c", "NL"), (2, "g", "BE")]
    letters = {
        row["value"]: row["detail"] for row in project.rows("landed__dead_letter")
    }
    assert letters == {value: said for value, (_, said) in wrong.items()}


NAMELESS = "it has no header apicurio.value.contentId or apicurio.value.globalId of eight bytes"


def test_global_ids_that_no_interface_of_apicurios_resolves_are_dead_letters(
    project: Project,
) -> None:
    with open_memory_registry() as registry:
        project.connections = {
            **project.connections,
            "schemas": {"type": "registry", "url": registry.url},
        }
        registry.register("orders-value", V1)
        declare(project, {"id": "bigint"}, wire="apicurio_headers")
        project.model("landed", "SELECT id FROM {orders}", mode="append")
        value = body(
            V1,
            {"id": 1, "amount": Decimal("1.00"), "at": AT, "state": "new", "gone": ""},
        )
        lines = [
            in_bytes(value, headers=[header(name, 1)])
            for name in ("contentId", "globalId")
        ]
        project.record("orders", lines)
        project.run().check()
    assert project.rows("landed") == [{"id": 1}]
    (letter,) = project.rows("landed__dead_letter")
    assert (
        "apicurio.value.globalId" in letter["detail"]
        and "/apis/ccompat/v7" in letter["detail"]
    )


def test_a_registry_that_is_not_trusted_stops_the_model_and_nothing_is_lost(
    project: Project,
) -> None:
    """What is corrected in the profile is all that it takes: the next run reads the
    records again."""
    folder = project.directory
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    with open_memory_registry(server_context(authority.sign("registry"))) as registry:
        number = registry.register("orders-value", V1)
        registry.wants_token, registry.clients = True, {"lakesql": "right"}

        def connect(ca: Authority, secret: str) -> None:
            login = {
                "bearer.auth.credentials.source": "OAUTHBEARER",
                "bearer.auth.client.id": "lakesql",
                "bearer.auth.client.secret": secret,
                "bearer.auth.scope": "read",
                "bearer.auth.issuer.endpoint.url": f"{registry.url}/token",
                "max.retries": "0",
            }
            own = {
                "type": "registry",
                "url": registry.url,
                "ca": str(ca.file),
                "options": login,
            }
            project.connections = {**project.connections, "schemas": own}

        declare(project, {"id": "bigint"})
        project.model("landed", "SELECT id FROM {orders}", mode="append")
        row = {"amount": Decimal("1.00"), "at": AT, "state": "new", "gone": ""}
        project.record(
            "orders",
            [
                in_bytes(framed(number, body(V1, {**row, "id": id_})))
                for id_ in range(3)
            ],
        )
        for ca, secret, condition in (
            (stranger, "right", "certificate-untrusted"),
            (authority, "wrong", "wrong-credentials"),
        ):
            connect(ca, secret)
            ran = project.run()
            assert not ran.succeeded and ran.conditions("landed") == [condition]
            assert not project.has("landed") or project.rows("landed") == []
        connect(authority, "right")
        project.run().check()
    assert project.rows("landed", "id") == [{"id": id_} for id_ in range(3)]
    assert project.reasons("landed") == {}


def test_a_model_that_keeps_state_reads_the_model_that_lands_the_stream(
    project: Project,
) -> None:
    register(project, 7, V1)
    declare(project, watermark={"column": "at", "delay": "1 minute"})
    project.model(
        "counted",
        COUNTED.format("{orders}"),
        mode="append",
    )
    with pytest.raises(ProjectError, match="registry-stateful"):
        project.run("counted")
    project.write(
        "models/landed.yml",
        json.dumps(
            {
                "models": [
                    {
                        "name": "landed",
                        "watermark": {"column": "at", "delay": "1 minute"},
                    }
                ]
            }
        ),
    )
    project.model("landed", "SELECT id, at FROM {orders}", mode="append")
    project.model(
        "counted",
        COUNTED.format("{landed}"),
        mode="append",
    )
    row = {"amount": Decimal("1.00"), "state": "new", "gone": ""}
    times = [AT, AT, AT + timedelta(hours=3)]
    project.record(
        "orders",
        [in_bytes(framed(7, body(V1, {**row, "id": 1, "at": at}))) for at in times],
    )
    project.run().check()
    project.run().check()
    assert [row["n"] for row in project.rows("counted")] == [2]


def test_keyed_modes_read_them_too(project: Project) -> None:
    register(project, 7, V1)
    register(project, 9, V3)
    declare(project, key=["id"])
    project.model(
        "newest",
        "SELECT id, customer, at FROM {orders}",
        mode="upsert",
        keys="id",
        sequence_by="at",
    )
    project.model(
        "versions",
        "SELECT id, customer, at FROM {orders}",
        mode="scd2",
        keys="id",
        sequence_by="at",
    )
    row = {"amount": Decimal("1.00"), "state": "new"}
    later = AT + timedelta(hours=1)
    project.record(
        "orders",
        [
            in_bytes(
                framed(9, body(V3, {**row, "id": 1, "customer": "new", "at": later}))
            )
        ],
    )
    project.record(
        "orders",
        [
            in_bytes(
                framed(
                    7, body(V1, {**row, "id": 1, "cust": "old", "at": AT, "gone": ""})
                )
            )
        ],
    )
    project.run().check()
    assert project.rows("newest") == [{"id": 1, "customer": "new", "at": later}]
    assert [(row["customer"], row["at"]) for row in project.rows("versions", "at")] == [
        ("old", AT),
        ("new", later),
    ]


def test_a_preview_reads_what_nobody_has_looked_up_yet(project: Project) -> None:
    register(project, 7, V1)
    declare(project)
    project.model("landed", "SELECT id FROM {orders}", mode="append")
    row = {"amount": Decimal("1.00"), "at": AT, "state": "new", "gone": "", "id": 5}
    project.record(
        "orders", [in_bytes(framed(7, body(V1, row))), in_bytes(framed(8, b""))]
    )
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, "landed"))
    session = project.lake.session.newSession()
    _, rows, records, rejected = preview_rows(
        session, bound.select, bound.bindings, 10, Brokers()
    )
    assert (rows, records, rejected) == ([(5,)], 2, (("unparsable", 1),))


@pytest.mark.parametrize(("wire", "size"), [("confluent", 4), ("apicurio", 8)])
def test_json_behind_the_id_of_its_schema(
    project: Project, wire: str, size: int
) -> None:
    columns = {"id": {"type": "int", "required": True}, "name": "string"}
    project.stream("things", columns, format="json_schema", wire=wire, key=["id"])
    project.model(
        "landed", "SELECT id, name, _record.key AS key FROM {things}", mode="append"
    )
    project.model("newest", "SELECT id, name FROM {things}", mode="upsert", keys="id")

    values = [
        framed(3, b'{"id":1,"name":"a"}', size),
        framed(4, b'{"id":2,"name":"b"}', size),
        b'{"id":3}',
    ]
    bad = framed(3, b'{"id":"x"}', size)
    keys = [framed(9, str(number).encode(), size) for number in (1, 2, 3)]
    project.record(
        "things",
        [*map(in_bytes, values, keys), in_bytes(bad, keys[0]), in_bytes(None, keys[1])],
    )
    project.run().check()
    assert [(row["id"], row["name"]) for row in project.rows("landed", "id")] == [
        (1, "a"),
        (2, "b"),
        (3, None),
    ]
    assert [row["key"] for row in project.rows("landed", "id")] == keys
    assert [row["id"] for row in project.rows("newest", "id")] == [1, 3]
    letters = {
        row["value"]: row["detail"] for row in project.rows("landed__dead_letter")
    }
    assert letters[bad] == "id: not a int, or out of its range"
