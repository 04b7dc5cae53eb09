"""What is asked of the format that a stream's records are written in, whichever it is.
Pure.

A new format is a file in `formats/`, a line in `kinds_of_records.py`, and what parses
it in `lakesql/engine/records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from lakesql.records.formats.csv import Csv


class RecordFormat(Protocol):
    """How the value of a record, or a file of records, is written."""

    name: ClassVar[str]
    """The word for it in a stream's `format`."""

    is_text: ClassVar[bool] = False
    """Whether columns are read from text: it has an encoding, and numbers in digits
    that may be rounded."""

    is_document: ClassVar[bool] = False
    """Whether a record is a JSON document, of which parts can be masked, and in which
    change feeds are written."""

    tells_columns: ClassVar[bool] = False
    """Whether a schema that says the columns of a change may stand beside it, or in a
    registry."""

    has_typed_rows: ClassVar[bool] = False
    """Whether its files are of rows with types, as Spark's own reader brings them."""

    is_for_records: ClassVar[bool] = True
    """Whether a single record, such as a topic has, may be written in it."""

    schema_kind: ClassVar[str] = ""
    """What registries call the schemas of single records that do not say how they are
    written; '' where they do."""

    has_messages: ClassVar[bool] = False
    """Whether such a schema may have several messages, of which a stream's records are
    one."""

    takes_schema_file: ClassVar[bool] = False
    """Whether a stream may name the file of such a schema, by which all of its records
    are written."""

    is_framed: ClassVar[bool] = False
    """Whether the id of a schema may stand before a record's key and value, which are
    JSON."""

    is_converted: ClassVar[bool] = False
    """Whether Spark's reader makes other values of those that do not fit their columns,
    and says nothing."""

    rounds_decimals: ClassVar[bool] = False
    """Whether what it makes of them are rounded decimals, and times of numbers."""

    has_nanoseconds: ClassVar[bool] = False
    """Whether a timestamp may be in nanoseconds."""

    is_multiline: ClassVar[bool] = False
    """Whether a record in a file may have several lines, unless its stream says
    otherwise."""

    may_span_lines: ClassVar[bool] = False
    """Whether a stream may say by `multiline` whether a record in a file has several
    lines."""

    reads_wide_text: ClassVar[bool] = False
    """Whether files of it may be in an encoding of two bytes a character, where they
    are not read line by line."""

    is_separated: ClassVar[bool] = False
    """Whether a record is its values in the order of the columns, with a delimiter
    between them."""

    column_type: ClassVar[str] = ""
    """The type of its one column, `value`; '' where a stream declares its columns."""

    jars: ClassVar[frozenset[str]] = frozenset()
    """The groups of jars that Spark needs to read it."""

    def names_fields(self, csv: Csv) -> bool:
        """Whether its records, or their files, name the fields."""
        return False

    def has_headers(self, csv: Csv) -> bool:
        """Whether the first record of a file names the columns."""
        return False

    def may_count_times(self, csv: Csv) -> bool:
        """Whether a timestamp may be a number that counts something."""
        return False

    def holds(self, column_type: str) -> bool:
        """Whether a value of this type may be in it."""
        return True
