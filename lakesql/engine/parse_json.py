"""The fast half of reading JSON: what runs in Spark's Python workers, on Arrow data, with nothing but pyarrow.

A record is either *decided* here, and then its columns equal what Spark's `from_json` would give, or it is
*undecided* and handed on raw. Nothing is rejected here: Spark has the only say about what a bad record is.
The module travels to the workers by value (see `lakesql.engine.parse`), so it imports neither lakesql nor pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

BLOCK_RECORDS = 1024
"""How many records pyarrow reads at once: small, as one value that does not fit makes it refuse them all."""

FEW_RECORDS = 32
"""A block that pyarrow refuses is divided down to this many records, which then are undecided."""

PARTS = 4
"""Into how many parts a refused block is divided. Fewer parts read the good records more often."""

READS_PER_RECORD = 4
"""When the records of a batch have been read this often on average, its remaining ones are undecided."""

READ_OVERHEAD = 100
"""What one read costs before its first record, in records."""

BATCHES_LEFT_OUT = 15
"""How many batches go to Spark untried after one of which more than a quarter was undecided."""

Block = Any
"""`pyarrow.Array` of binary values. pyarrow has no types to check against."""


@dataclass(frozen=True)
class Shape:
    """The contract in Arrow's terms: the columns, and the positions of those that must not be NULL."""

    fields: tuple[tuple[str, Any], ...]
    required: tuple[int, ...]


@dataclass(frozen=True)
class Refusal:
    """pyarrow could not read a block; `row` is the row in it where it stopped, when it says so."""

    row: int | None


def batch_parser(shape: Shape) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """The function for `mapInArrow`.

    In: `value, key` (binary) and any further columns. Out: one column per column of the shape, `undecided` (boolean),
    `value` and `key` of the undecided records only (NULL on the others), then the further columns unchanged. A record
    without a value is undecided.
    """

    def parse(batches: Iterable[Any]) -> Iterator[Any]:
        left_out = 0
        for batch in batches:
            count = batch.num_rows
            if left_out:
                left_out -= 1
                columns, undecided = _all_undecided(count, shape)
            else:
                columns, undecided = parse_values(batch.column(0), shape)
                if 4 * pc.sum(undecided, min_count=0).as_py() > count:
                    left_out = BATCHES_LEFT_OUT
            raw = [_where(undecided, batch.column(0)), _where(undecided, batch.column(1))]
            arrays = [*columns, undecided, *raw, *(batch.column(i) for i in range(2, batch.num_columns))]
            yield pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])

    return parse


def parse_values(values: Block, shape: Shape) -> tuple[list[Any], Any]:
    """The columns of `values` and a boolean array of the undecided ones, whose columns are NULL."""
    count = len(values)
    one_object = pc.fill_null(pc.and_(pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}")), False)
    origins = None
    if not pc.all(one_object, min_count=0).as_py():
        origins = pc.indices_nonzero(one_object).to_pylist()
        values = values.filter(one_object)

    pieces: list[list[Any]] = []
    rows: list[int | None] = [None] * count
    read = 0
    for start, columns, decided in _blocks(values, shape):
        pieces.append(columns)
        if decided is None and origins is None and len(columns[0]) == count:
            return columns, _repeat(False, count)
        flags = decided.to_pylist() if decided is not None else None
        for i in range(len(columns[0])):
            if flags is None or flags[i]:
                rows[origins[start + i] if origins is not None else start + i] = read + i
        read += len(columns[0])
    if not pieces:
        return _all_undecided(count, shape)
    take = pa.array(rows, pa.int32())
    columns = [pa.concat_arrays([piece[i] for piece in pieces]).take(take) for i in range(len(shape.fields))]
    return columns, pc.is_null(take)


def _blocks(values: Block, shape: Shape) -> Iterator[tuple[int, list[Any], Any]]:
    """The parts of `values` that pyarrow reads: first row, columns, and which rows are decided (None: all)."""
    todo = [(at, min(at + BLOCK_RECORDS, len(values))) for at in range(0, len(values), BLOCK_RECORDS)]
    budget = READS_PER_RECORD * (len(values) + READ_OVERHEAD)
    while todo and budget > 0:
        start, stop = todo.pop()
        if start == stop:
            continue
        budget -= stop - start + READ_OVERHEAD
        match _read(values.slice(start, stop - start), shape):
            case Refusal(row):
                if row is not None and row < stop - start:
                    todo += [(start + row + 1, stop), (start, start + row)]
                elif stop - start > FEW_RECORDS:
                    step = -(-(stop - start) // PARTS)
                    todo += [(at, min(at + step, stop)) for at in range(start, stop, step)]
            case columns, decided:
                yield start, columns, decided


def _read(values: Block, shape: Shape) -> tuple[list[Any], Any] | Refusal:
    """One block, read by pyarrow.

    Every record begins with `{` and ends with `}`, and a line feed stands between two: an object that ran over its
    record's end would be a syntax error at the next `{`, or inside a string at the line feed. So each record holds at
    least one object, and as many rows as records means exactly one in each.
    """
    try:
        values.cast(pa.string())  # refuses what is not UTF-8, which pyarrow's JSON reader lets through
        lines = pc.binary_join_element_wise(values, b"", b"\n").buffers()[2]
        if b"Inf" in memoryview(lines).tobytes():  # a bare Inf is a number to pyarrow, an error to Spark
            return Refusal(None)
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([(name, _read_as(wanted)) for name, wanted in shape.fields]),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(values):
            return Refusal(None)
        columns = [_convert(table.column(i).combine_chunks(), wanted) for i, (_name, wanted) in enumerate(shape.fields)]
    except pa.ArrowException as error:
        row = re.search(r" in row (\d+)$", str(error))
        return Refusal(int(row[1]) if row else None)
    return columns, _decided(columns, shape)


def _read_as(wanted: Any) -> Any:
    """The type that pyarrow's reader is asked for: dates and timestamps come as text, see `_convert`."""
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return pa.string()
    if pa.types.is_struct(wanted):
        return pa.struct([pa.field(field.name, _read_as(field.type)) for field in wanted])
    if pa.types.is_list(wanted):
        return pa.list_(_read_as(wanted.value_type))
    return wanted


def _convert(read: Any, wanted: Any) -> Any:
    """What was read, as the wanted type. Raises `ArrowInvalid` for a value that Spark may understand otherwise."""
    if pa.types.is_timestamp(wanted):
        return _timestamps(read, wanted)
    if pa.types.is_date(wanted):
        return read.cast(wanted)
    if pa.types.is_decimal(wanted):
        read.validate(full=True)  # the reader does not compare whole numbers with the precision
        return read
    if pa.types.is_struct(wanted):
        children = [_convert(child, field.type) for child, field in zip(read.flatten(), wanted, strict=True)]
        if any(_odd(child) for child in children):
            raise pa.ArrowInvalid("a nested number that Spark reads otherwise")
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=read.is_null())
    if pa.types.is_list(wanted):
        items = _convert(read.values, wanted.value_type)
        if _odd(items):
            raise pa.ArrowInvalid("a nested number that Spark reads otherwise")
        return pa.ListArray.from_arrays(read.offsets, items, type=wanted, mask=read.is_null())
    return read


def _timestamps(texts: Any, wanted: Any) -> Any:
    """ISO spellings that pyarrow and Spark read alike; session time zone UTC.

    Without a zone every spelling of pyarrow's is one of Spark's. With a zone pyarrow also takes what Spark refuses
    (no seconds, more than 18 hours): twenty characters and a Z have seconds, else the expression tells.
    """
    if len(texts) > texts.null_count and pc.all(pc.ends_with(texts, pattern="Z")).as_py():
        if pc.min(pc.binary_length(texts)).as_py() < len("2000-01-01T00:00:00Z"):
            raise pa.ArrowInvalid("a time without seconds but with a zone")
        return texts.cast(wanted)
    try:
        return texts.cast(pa.timestamp("us")).cast(wanted)
    except pa.ArrowInvalid:
        zoned = pc.match_substring_regex(
            texts, pattern=r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
        )
        return pc.binary_join_element_wise(texts, pc.if_else(zoned, "", "Z"), "").cast(wanted)


def _decided(columns: list[Any], shape: Shape) -> Any:
    """Which rows are decided, or None for all: no required column NULL, no number that Spark reads otherwise."""
    doubts = [columns[i].is_null() for i in shape.required if columns[i].null_count]
    doubts += [pc.fill_null(_odd_rows(column), False) for column in columns if _odd(column)]
    if not doubts:
        return None
    doubt = doubts[0]
    for other in doubts[1:]:
        doubt = pc.or_(doubt, other)
    return pc.invert(doubt)


def _odd(column: Any) -> bool:
    """Whether a column of floating-point numbers holds one that Spark may read otherwise."""
    return pa.types.is_floating(column.type) and bool(pc.any(_odd_rows(column), min_count=0).as_py())


def _odd_rows(column: Any) -> Any:
    """Infinities, which stand for an overflow, and the negative zero, which Spark reads from `-0.0` but not `-0`."""
    bits, negative_zero = (pa.int64(), -(2**63)) if column.type == pa.float64() else (pa.int32(), -(2**31))
    return pc.or_(pc.is_inf(column), pc.equal(column.view(bits), pa.scalar(negative_zero, bits)))


def _all_undecided(count: int, shape: Shape) -> tuple[list[Any], Any]:
    return [pa.nulls(count, wanted) for _name, wanted in shape.fields], _repeat(True, count)


def _where(flags: Any, column: Any) -> Any:
    """The column's values where the flag stands, else NULL."""
    return pc.if_else(flags, column, pa.scalar(None, column.type))


def _repeat(flag: bool, count: int) -> Any:
    return pa.repeat(pa.scalar(flag), count)
