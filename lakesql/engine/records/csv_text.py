"""How a CSV record becomes columns: by position, or by the names in its file's header.

Spark's CSV parser does not report a quote that is never closed. So a known value is
appended to each record and read as one more column: it is found only if the record is
whole. Line breaks outside quotes are checked for only if the text has any.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.engine.records.folded import all_of
from lakesql.names import CORRUPT
from lakesql.records.formats.csv import Csv

TAIL = "_lakesql_tail"
"""The column after the last one: it is `TAIL_TEXT` if the record is whole."""

TAIL_TEXT = "lakesql"


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The header of files whose columns are not the contract's, or are in another
    order.

    `line` is the text that is put before each record of these files, with a line break:
    their header, as written. `columns` are the contract's columns by position, None
    where the contract has none. `problem` is why no record below it can be read, '' if
    they can be. `folders` are columns whose values come from the files' folders and are
    appended to each record; then `line` has their names too, and `own` is the files'
    own header, '' if they have none. If a column has two values, the first that is not
    NULL is taken.
    """

    line: str
    columns: tuple[str | None, ...] = ()
    problem: str = ""
    folders: tuple[str, ...] = ()
    own: str | None = None

    @property
    def prefix(self) -> str:
        """The text with which each record of these files begins."""
        return f"{self.line}\n"


def read_header(
    line: str, columns: Sequence[tuple[str, bool]], options: Csv
) -> CsvHeader | None:
    """The header in a file's first line; None if its columns are the contract's, in the
    same order, or if the line is a record.

    `columns` are the contract's names, each with whether it is a text. Names are
    compared as in SQL, without surrounding blanks. A line that names none of the
    columns is a record if it may be one: the contract has columns that are no texts,
    and the line may have a value for each.
    """
    found = [
        name.strip().lower() for name in _split(line.removeprefix("\ufeff"), options)
    ]
    wanted = {name.strip().lower(): name for name, _ in columns}
    if found == list(wanted):
        return None
    folders = _marked(found, wanted)
    found = found[: len(found) - len(folders)]
    named = [wanted.get(name) for name in found]
    twice = next((name for name in named if name and named.count(name) > 1), None)
    if twice:
        return CsvHeader(
            line, problem=f"the header of the file has the column {twice} twice"
        )
    if any(named) or folders:
        return CsvHeader(line, (*named, *folders), folders=folders)
    if _may_be_record(found, columns, options):
        return None
    return CsvHeader(
        line, problem=f"the header of the file names none of the columns: {line[:200]}"
    )


FOLDER_MARK = "="
"""The suffix of a column's name in a header if its values are those of a file's
folders."""


def _marked(names: Sequence[str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The columns at the end of a header that have the suffix `FOLDER_MARK`, whose
    values were appended to the records of the file."""
    marked: list[str] = []
    for name in reversed(names):
        column = wanted.get(name.removesuffix(FOLDER_MARK))
        if name in wanted or not name.endswith(FOLDER_MARK) or column is None:
            break
        marked.insert(0, column)
    return tuple(marked)


def with_folders(
    line: str,
    columns: Sequence[tuple[str, bool]],
    options: Csv,
    folders: tuple[str, ...],
) -> CsvHeader:
    """The header of a file whose folders give these columns; `line` is its first line,
    '' if the file is empty.

    If the file has no header, its columns are all of the contract's if the first line
    has as many values; else those that the folders do not give.
    """
    names = [name for name, _ in columns]
    header = read_header(line, columns, options) if options.header and line else None
    if header is not None and header.problem:
        return header
    is_headed = options.header and (
        header is not None
        or not _may_be_record(_split(line, options), columns, options)
    )
    own = line if is_headed else ""
    if header is not None:
        named = header.columns
    elif is_headed or len(_split(line, options)) == len(names):
        named = tuple(names)
    else:
        named = tuple(name for name in names if name not in folders)
    written = (
        [own] if is_headed else [_written(name, options) for name in named if name]
    )
    marked = [_written(f"{name}{FOLDER_MARK}", options) for name in folders]
    return CsvHeader(
        options.delimiter.join((*written, *marked)),
        (*named, *folders),
        "",
        folders,
        own,
    )


def _written(name: str, options: Csv) -> str:
    """A name as it is written in a header."""
    quote = options.quote
    return (
        f"{quote}{name.replace(quote, (options.escape or quote) + quote)}{quote}"
        if quote
        else name
    )


def _may_be_record(
    values: Sequence[str], columns: Sequence[tuple[str, bool]], options: Csv
) -> bool:
    if len(values) != len(columns) or all(is_text for _, is_text in columns):
        return False
    null = options.null_value.strip().lower()
    typed = [
        value
        for value, (_, is_text) in zip(values, columns, strict=True)
        if not is_text
    ]
    return all(
        value in ("", null, "true", "false") or re.match(r"[-+.]?\d", value)
        for value in typed
    )


def _split(line: str, options: Csv) -> list[str]:
    """The values of a line. Python's reader is used if delimiter and quote have one
    character each; else the line is split at the delimiters."""
    if len(options.delimiter) != 1 or len(options.quote) != 1:
        return [value.strip(options.quote) for value in line.split(options.delimiter)]
    is_doubled = options.escape == options.quote
    escape = None if is_doubled or len(options.escape) != 1 else options.escape
    rows = csv.reader(
        [line], delimiter=options.delimiter, quotechar=options.quote, escapechar=escape
    )
    try:
        return next(iter(rows), [])
    except csv.Error:
        return [line]


def read_csv(
    text: Column, schema: T.StructType, options: Csv, headers: Sequence[CsvHeader]
) -> Column:
    """A CSV record parsed to a struct of `schema`, with `TAIL` before its last field,
    `CORRUPT`."""
    found = _read(_without_line_end(text), schema, options)
    for header in headers:
        body = F.substring(text, len(header.prefix) + 1, 2**31 - 1)
        found = F.when(
            text.startswith(header.prefix), _read_by_name(body, schema, options, header)
        ).otherwise(found)
    return found


def _read(text: Column, schema: T.StructType, options: Csv) -> Column:
    *columns, corrupt = schema.fields
    whole = T.StructType([*columns, T.StructField(TAIL, T.StringType()), corrupt])
    spark_options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "sep": options.delimiter,
        "nullValue": options.null_value,
        "quote": options.quote,
        "escape": options.escape,
    }
    if options.timestamp_format:
        spark_options["timestampFormat"] = options.timestamp_format
    if options.date_format:
        spark_options["dateFormat"] = options.date_format
    # The typed method takes the schema as DDL only.
    return F.from_csv(
        F.concat(text, F.lit(options.delimiter + TAIL_TEXT)), _ddl(whole), spark_options
    )


def _read_by_name(
    text: Column, schema: T.StructType, options: Csv, header: CsvHeader
) -> Column:
    """The record parsed by its header to a struct of `schema`, and `TAIL`. A column
    that the header lacks is NULL."""
    kinds = {field.name: field.dataType for field in schema.fields}
    places: defaultdict[str, list[str]] = defaultdict(list)
    file_fields = []
    for number, name in enumerate(header.columns):
        kind = kinds[name] if name else T.StringType()
        file_fields.append(T.StructField(f"_lakesql_column_{number}", kind))
        places[name or ""].append(file_fields[-1].name)
    read = _read(
        _without_line_end(text),
        T.StructType([*file_fields, schema.fields[-1]]),
        options,
    )
    *columns, corrupt = schema.names

    def by_name(found: Column) -> Column:
        values = [
            F.coalesce(
                *(found[place] for place in places[name]), F.lit(None).cast(kinds[name])
            ).alias(name)
            for name in columns
        ]
        return F.struct(*values, found[TAIL].alias(TAIL), found[corrupt].alias(corrupt))

    # The lambda binds the parsed record, so that it is not parsed once per column.
    return F.transform(F.array(read), by_name)[0]


def is_whole(row: Column) -> Column:
    """Whether a record was parsed to its end, with every quote closed."""
    return F.coalesce(row[TAIL] == TAIL_TEXT, F.lit(False))


def has_open_quote(text: Column, options: Csv) -> Column:
    """Whether the number of quotes in a record is odd: one is never closed, or was
    opened on another line."""
    if not options.quote:
        return F.lit(False)
    plain = text
    if options.escape and options.escape != options.quote:
        plain = F.regexp_replace(text, f"(?s){re.escape(options.escape)}.", "")
    without = F.length(F.replace(plain, F.lit(options.quote), F.lit("")))
    return text.contains(options.quote) & ((F.length(plain) - without) % 2 == 1)


def has_several_lines(text: Column, options: Csv) -> Column:
    """Whether a record has a line break outside quotes before its end."""
    unquoted = _without_quoted(text, options)
    return text.contains("\n") & _without_line_end(unquoted).contains("\n")


def has_line_break(text: Column) -> Column:
    """Whether a record has a line break before its end, in quotes or not."""
    return _without_line_end(text).rlike(r"[\r\n]")


def _without_quoted(text: Column, options: Csv) -> Column:
    return (
        F.regexp_replace(text, quoted_pattern(options), "") if options.quote else text
    )


def quoted_pattern(options: Csv) -> str:
    """A regular expression for a text in quotes, or for an escaped character outside
    quotes."""
    quote, escape = re.escape(options.quote), re.escape(options.escape)
    plain = (
        f"[^{quote}]|{quote}{quote}"
        if options.quote == options.escape
        else f"[^{quote}{escape}]|{escape}."
    )
    escaped = "" if options.quote == options.escape or not escape else f"{escape}.|"
    return f"(?s){escaped}{quote}(?:{plain})*+{quote}"


_LINE_END = r"\r?\n\z"


def _without_line_end(text: Column) -> Column:
    return F.when(text.endswith("\n"), F.regexp_replace(text, _LINE_END, "")).otherwise(
        text
    )


def is_record(text: Column, names: Sequence[str], options: Csv) -> Column:
    """Whether a line is a record: not blank, not Excel's line with the delimiter, and
    with the option `header` not the names of the columns in their order.

    If there is only one column, a line of blanks is a record.
    """
    found = F.rtrim(text) != "" if len(names) > 1 else _without_line_end(text) != ""
    found &= ~is_separator_line(text, options)
    return found & ~_is_header(text, names, options) if options.header else found


SEPARATOR_LINE = re.compile(r"(?i)\ufeff?sep=.\r?\n?")
"""The first line of a file that tells Excel its delimiter."""


def is_separator_line(text: Column, options: Csv) -> Column:
    """Whether a line only declares the delimiter of its file, as `sep=;` does."""
    line = F.lower(F.rtrim(F.ltrim(text, F.lit("\ufeff")), F.lit("\r\n")))
    return F.coalesce(line == f"sep={options.delimiter.lower()}", F.lit(False))


def _is_header(text: Column, names: Sequence[str], options: Csv) -> Column:
    """Whether a line has the names of the columns in their order: quoted or not, in any
    case, with blanks around them."""
    fields = [
        T.StructField(f"c{number}", T.StringType()) for number in range(len(names))
    ]
    plain = F.ltrim(text, F.lit("\ufeff"))  # a byte order mark
    schema = T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])
    found = _read(_without_line_end(plain), schema, options)
    same = [
        F.lower(F.trim(found[f.name])) == name.strip().lower()
        for f, name in zip(fields, names, strict=True)
    ]
    # so that most lines are not parsed for it
    is_likely = F.lower(plain).contains(names[0].strip().lower())
    return F.coalesce(
        F.when(is_likely, all_of((found[CORRUPT].isNull(), *same))), F.lit(False)
    )


def split_lines(text: Column, options: Csv) -> Column:
    r"""The records of a text in which line breaks are `\r` alone."""
    quote = options.quote
    plain = f"[^{re.escape(quote)}\\r]" if quote else r"[^\r]"
    choices = (
        [quoted_pattern(options).removeprefix("(?s)"), plain] if quote else [plain]
    )
    records = F.regexp_extract_all(
        text, F.lit(f"(?s)((?:{'|'.join(choices)})++)"), F.lit(1)
    )
    unquoted = _without_quoted(text, options)
    is_several = text.contains("\r") & unquoted.contains("\r")
    return F.when(is_several, records).otherwise(F.array(text))


def _ddl(schema: T.StructType) -> str:
    return ", ".join(
        f"{identifier(field.name)} {field.dataType.simpleString()}"
        for field in schema.fields
    )


def problems_of(headers: Iterable[CsvHeader]) -> Iterator[CsvHeader]:
    """The headers below which no record can be read."""
    return (header for header in headers if header.problem)
