"""Writes a project of many models, such as a company has after some years: `python
bench/generate.py DIR 1000`."""

from __future__ import annotations

import sys
from pathlib import Path

AREAS = (
    "billing",
    "crm",
    "finance",
    "logistics",
    "marketing",
    "orders",
    "payments",
    "search",
    "stock",
    "web",
)
PER_STREAM = 20
"""Models to a stream."""

SETTINGS = """\
[tool.lakesql]
name = "generated"

[tool.lakesql.vars]
smallest_amount = 10
"""

PROFILES = """\
generated:
  target: dev
  outputs:
    dev:
      catalog: {name: lake, type: sql, uri: "sqlite:///.lakesql/catalog.db", warehouse: .lakesql/warehouse}
      connections:
        broker: {type: recorded, path: recorded}
"""

MACROS = """\
{% macro clean(text) -%} lower(trim({{ text }})) {%- endmacro %}
{% macro euros(cents) -%} CAST({{ cents }} / 100 AS decimal(12,2)) {%- endmacro %}
{% macro country_of(column) -%} upper({{ clean(column) }}) {%- endmacro %}
"""

STREAM = """\
  - name: events_{number}
    description: Everything that happens in part {number}.
    connection: broker
    topic: part.{number}
    key: [id]
    columns:
      id: {{type: bigint, required: true}}
      customer_id: bigint
      kind: string
      country: string
      amount_cents: bigint
      detail: "struct<page: string, referrer: string>"
      happened_at: {{type: timestamp, description: When it happened.}}
    watermark: {{column: happened_at, delay: 10 minutes}}
"""

UPSERT = """\
-- The newest event of each id.
{{{{ config(
    mode='upsert',
    keys=['id'],
    sequence_by='happened_at',
    delete_when="kind = 'removed'",
    partition_by=['days(happened_at)'],
    tags=['{area}'],
) }}}}
SELECT
    id,
    customer_id,
    {{{{ clean('kind') }}}} AS kind,
    {{{{ country_of('country') }}}} AS country,
    {{{{ euros('amount_cents') }}}} AS amount,
    detail.page AS page,
    happened_at
FROM {{{{ stream('{stream}') }}}}
WHERE amount_cents >= {{{{ var('smallest_amount') }}}} AND id % 1000 <> {number}
"""

APPEND = """\
-- Every event, with its newest state as it stood at that moment.
{{{{ config(
    mode='append',
    trigger='30 seconds',
    partition_by=['days(happened_at)', 'bucket(16, customer_id)'],
    order_by=['happened_at'],
    tags=['{area}', 'raw'],
) }}}}
WITH recent AS (
    SELECT * FROM {{{{ stream('{stream}') }}}} WHERE happened_at > TIMESTAMP '2020-01-01 00:00:00'
)
SELECT
    r.id,
    r.customer_id,
    {{{{ clean('r.kind') }}}} AS kind,
    {{{{ euros('r.amount_cents') }}}} AS amount,
    s.page,
    r.happened_at,
    r._record.offset AS source_offset
FROM recent AS r
LEFT JOIN {{{{ ref('{before}') }}}} AS s ON s.id = r.id
WHERE r.id % 1000 <> {number}
"""

WINDOW = """\
-- Events of each ten minutes.
{{{{ config(mode='append', tags=['{area}', 'report']) }}}}
SELECT
    window.start AS window_start,
    {{{{ country_of('country') }}}} AS country,
    count(*) AS events,
    sum({{{{ euros('amount_cents') }}}}) AS amount
FROM {{{{ stream('{stream}') }}}}
WHERE id % 1000 <> {number}
GROUP BY window(happened_at, '10 minutes'), {{{{ country_of('country') }}}}
"""

CHAINED = """\
{{{{ config(mode='append', tags=['{area}']) }}}}
SELECT id, customer_id, kind, happened_at
FROM {{{{ stream('{before}') }}}}
WHERE kind = 'refund' AND id % 1000 <> {number}
"""

PROPERTIES = """\
  - name: {name}
    description: Model {number} of {area}.
    columns:
      - {{name: id, description: The number of the event.}}
      - {{name: customer_id, description: "Who caused it, if known."}}
      - {{name: happened_at, description: When it happened.}}
"""


def generate_project(directory: Path, models: int) -> None:
    """Write a project of so many models into `directory`; the same files for the same
    number."""
    properties: dict[str, list[str]] = {area: [] for area in AREAS}
    for number in range(models):
        area = AREAS[number % len(AREAS)]
        name = model_name(number)
        text = _template(number).format(
            area=area,
            stream=f"events_{number // PER_STREAM}",
            before=model_name(number - 1),
            number=number,
        )
        _write(directory / "models" / area / f"{name}.sql", text)
        properties[area].append(PROPERTIES.format(name=name, number=number, area=area))
    for area, entries in properties.items():
        _write(
            directory / "models" / area / f"{area}.yml",
            "models:\n" + "".join(entries) if entries else "",
        )
    streams = "".join(
        STREAM.format(number=number) for number in range(-(-models // PER_STREAM))
    )
    _write(directory / "streams" / "events.yml", "streams:\n" + streams)
    _write(directory / "macros" / "text.sql", MACROS)
    _write(directory / "profiles.yml", PROFILES)
    _write(directory / "pyproject.toml", SETTINGS)


def model_name(number: int) -> str:
    """The name of a model: `orders_0005`."""
    return f"{AREAS[number % len(AREAS)]}_{number:04}"


def _template(number: int) -> str:
    """Of ten models four are upserts, three appends that join the model before, one a
    window, two read it as a stream.

    The model before an append is an upsert, and the one before a reader of its stream
    is an append.
    """
    return (
        UPSERT,
        APPEND,
        CHAINED,
        UPSERT,
        APPEND,
        CHAINED,
        UPSERT,
        APPEND,
        UPSERT,
        WINDOW,
    )[number % 10]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    generate_project(Path(sys.argv[1]), int(sys.argv[2]))
