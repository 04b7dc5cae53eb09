"""CSV: the values of a record, between delimiters, in the order of the columns or of a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.records.format import RecordFormat


@dataclass(frozen=True, slots=True)
class Csv:
    """How the records of a CSV stream are read."""

    header: bool = option(
        "Whether each file starts with a line of names, which is not a record. Its columns are those of these names "
        "then, in the header's order; without it, those of the contract, in the contract's order.",
        default=False,
    )
    delimiter: str = option("The separator of two values.", default=",")
    quote: str = option("The quote around a value that contains the delimiter.", default='"')
    escape: str = option(
        "What escapes a quote inside a quoted value: a second quote, whichever it is, or another character.",
        default='"',
    )
    null_value: str = option("A text that means NULL; an empty value does too.", default="")
    timestamp_format: str = option("Spark's pattern of timestamps; ISO 8601 if left out.", default="")

    def __post_init__(self) -> None:
        """Left out, what escapes a quote is the quote itself: a double one escapes no other."""
        if self.escape == '"':
            object.__setattr__(self, "escape", self.quote)


class CsvFormat(RecordFormat):
    """Lines, or records in quotes that have several."""

    name: ClassVar[str] = "csv"
    is_text: ClassVar[bool] = True
    is_multiline: ClassVar[bool] = True
    may_span_lines: ClassVar[bool] = True
    reads_wide_text: ClassVar[bool] = True
    is_separated: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """Its header does."""
        return csv.header

    def has_headers(self, csv: Csv) -> bool:
        """If the stream says so."""
        return csv.header

    def may_count_times(self, csv: Csv) -> bool:
        """A number may be one, unless times have a pattern."""
        return not csv.timestamp_format

    def holds(self, column_type: str) -> bool:
        """A value has no values within."""
        return not column_type.startswith(("array<", "map<", "struct<", "variant"))
