"""CSV: the values of a record separated by delimiters, in the order of the columns or
of a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lakesql.decode import Node, option
from lakesql.errors import ProjectError
from lakesql.records.format import RecordFormat

THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")
"""The characters that may separate thousands, among them non-breaking blanks and the
apostrophe of Swiss numbers."""


def _read_thousands(node: Node) -> str:
    if node.value in THOUSANDS:
        return str(node.value)
    what = f"{node.shown} is nothing that stands between thousands."
    raise ProjectError.of(
        "wrong-value", what, fix="Write '.', ',', \"'\" or ' '.", place=node.place
    )


@dataclass(frozen=True, slots=True)
class Csv:
    """How the records of a CSV stream are read."""

    header: bool = option(
        "Whether each file starts with a line of column names, which gives the order of its columns. Without it, "
        "columns are in the order of the contract.",
        default=False,
    )
    delimiter: str = option("Character that separates values.", default=",")
    quote: str = option(
        "Quote around a value that contains the delimiter.", default='"'
    )
    escape: str = option(
        "Character that escapes a quote in a quoted value; the default is a second quote, whatever `quote` is.",
        default='"',
    )
    null_value: str = option(
        "Text that means NULL, as an empty value does.", default=""
    )
    timestamp_format: str = option(
        "Spark's datetime pattern of timestamps; ISO 8601 if left out.", default=""
    )
    date_format: str = option(
        "Spark's datetime pattern of dates, such as `dd.MM.yyyy`; ISO 8601 if left out.",
        default="",
    )
    decimal: Literal[".", ","] = option(
        "Character before the fraction of a number.", default="."
    )
    thousands: str = option(
        "Character between groups of three digits in a number: a point, a comma, an apostrophe or a blank; none if "
        "left out.",
        default="",
        read=_read_thousands,
    )

    @property
    def has_marks(self) -> bool:
        """Whether numbers have another decimal mark than a point, or thousands
        marks."""
        return self.decimal != "." or bool(self.thousands)

    def __post_init__(self) -> None:
        """Make the quote character the default of `escape`: a double quote could escape
        no other quote."""
        if self.escape == '"':
            object.__setattr__(self, "escape", self.quote)


class CsvFormat(RecordFormat):
    """Lines of values, or records with quoted values that span several lines."""

    name: ClassVar[str] = "csv"
    is_text: ClassVar[bool] = True
    is_multiline: ClassVar[bool] = True
    may_span_lines: ClassVar[bool] = True
    reads_wide_text: ClassVar[bool] = True
    is_separated: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """Whether files have a header."""
        return csv.header

    def has_headers(self, csv: Csv) -> bool:
        """Whether the stream declares a header."""
        return csv.header

    def may_count_times(self, csv: Csv) -> bool:
        """Whether a timestamp may be a number: not if the stream has a timestamp
        pattern."""
        return not csv.timestamp_format

    def holds(self, column_type: str) -> bool:
        """Whether the type is not nested."""
        return not column_type.startswith(("array<", "map<", "struct<", "variant"))
