"""All formats and envelopes by their names. A new one is a line here, and a word in
`stream/stream.py`."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.records.envelope import RecordEnvelope
from lakesql.records.envelopes.debezium import DebeziumEnvelope
from lakesql.records.envelopes.debezium_flat import FlatEnvelope
from lakesql.records.envelopes.dms import DmsEnvelope
from lakesql.records.envelopes.none import NoEnvelope
from lakesql.records.format import RecordFormat
from lakesql.records.formats.avro import AvroFormat
from lakesql.records.formats.bytes import BytesFormat
from lakesql.records.formats.csv import CsvFormat
from lakesql.records.formats.json import JsonFormat
from lakesql.records.formats.json_schema import JsonSchemaFormat
from lakesql.records.formats.orc import OrcFormat
from lakesql.records.formats.parquet import ParquetFormat
from lakesql.records.formats.protobuf import ProtobufFormat
from lakesql.records.formats.string import StringFormat

FORMATS: Mapping[str, RecordFormat] = {
    each.name: each
    for each in (
        *(
            JsonFormat(),
            CsvFormat(),
            ParquetFormat(),
            AvroFormat(),
            StringFormat(),
            BytesFormat(),
        ),
        *(JsonSchemaFormat(), ProtobufFormat(), OrcFormat()),
    )
}
"""All formats by their names."""

ENVELOPES: Mapping[str, RecordEnvelope] = {
    each.name: each
    for each in (NoEnvelope(), DebeziumEnvelope(), FlatEnvelope(), DmsEnvelope())
}
"""All envelopes that a stream may declare, by their names."""
