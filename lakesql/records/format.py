"""What every format of records answers about itself: `RecordFormat`. Pure.

A new format is a file in `formats/`, a line in `kinds_of_records.py`, and its parser in
`lakesql/engine/records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from lakesql.records.formats.csv import Csv


class RecordFormat(Protocol):
    """How the value of a record, or a file of records, is written."""

    name: ClassVar[str]
    """Its name in a stream's `format`."""

    is_text: ClassVar[bool] = False
    """Whether columns are read from text, which has an encoding, and numbers in digits
    that may be rounded."""

    is_document: ClassVar[bool] = False
    """Whether a record is a JSON document, parts of which can be masked, and in which
    change feeds can be written."""

    tells_columns: ClassVar[bool] = False
    """Whether a change may have a schema with its columns, beside it or in a
    registry."""

    has_typed_rows: ClassVar[bool] = False
    """Whether its files hold rows with types, which Spark's own reader returns."""

    is_for_records: ClassVar[bool] = True
    """Whether a single record, such as one in a topic, can be written in it."""

    schema_kind: ClassVar[str] = ""
    """The kind, in registries, of the schemas that single records need to be read; ''
    if they need none."""

    has_messages: ClassVar[bool] = False
    """Whether such a schema may define several messages, of which a stream's records
    are one."""

    takes_schema_file: ClassVar[bool] = False
    """Whether a stream may name a file with such a schema, by which all of its records
    are written."""

    is_framed: ClassVar[bool] = False
    """Whether keys and values are JSON that may follow the id of a schema."""

    is_converted: ClassVar[bool] = False
    """Whether Spark's reader silently converts values that do not fit their columns."""

    rounds_decimals: ClassVar[bool] = False
    """Whether these conversions include rounding decimals, and numbers read as
    times."""

    has_nanoseconds: ClassVar[bool] = False
    """Whether a timestamp may be in nanoseconds."""

    is_multiline: ClassVar[bool] = False
    """The default of `multiline`: whether a record in a file may span several lines."""

    may_span_lines: ClassVar[bool] = False
    """Whether a stream may set `multiline`."""

    reads_wide_text: ClassVar[bool] = False
    """Whether its files may be in an encoding of two bytes a character, if they are not
    read line by line."""

    is_separated: ClassVar[bool] = False
    """Whether a record is its values in the order of the columns, separated by a
    delimiter."""

    column_type: ClassVar[str] = ""
    """The type of its only column, `value`; '' if a stream declares its columns."""

    jars: ClassVar[frozenset[str]] = frozenset()
    """The groups of jars that Spark needs to read it."""

    def names_fields(self, csv: Csv) -> bool:
        """Whether its records, or their files, name the fields."""
        return False

    def has_headers(self, csv: Csv) -> bool:
        """Whether the first record of a file names the columns."""
        return False

    def may_count_times(self, csv: Csv) -> bool:
        """Whether a timestamp may be a number of time units."""
        return False

    def holds(self, column_type: str) -> bool:
        """Whether it can hold a value of this type."""
        return True
