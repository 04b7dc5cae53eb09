"""Protobuf: single records with schemas that they name by an id of a registry."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class ProtobufFormat(RecordFormat):
    """Messages, which need a schema to be read."""

    name: ClassVar[str] = "protobuf"
    schema_kind: ClassVar[str] = "PROTOBUF"
    has_messages: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """True: its schema names the fields."""
        return True
