"""Whether JSON records spell a column with other capitals, so that the column is NULL:
checked once per run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakesql.engine.sources.binding import StreamBinding
from lakesql.events import Emit, SpelledOtherwise
from lakesql.stream.stream import Column

SAMPLE = 50
"""How many of the first records of a run are checked."""

LONGEST = 1 << 20
"""Records with more bytes are not checked."""


class Capitals:
    """What a query has checked: the first batch with records, of each of its
    streams."""

    def __init__(self) -> None:
        self._looked_at: set[str] = set()

    def tell(
        self, model: str, raws: Iterable[tuple[StreamBinding, DataFrame]], emit: Emit
    ) -> None:
        """Report the columns that records of a batch spell with other capitals. `raws`
        are the raw records of each stream."""
        for binding, raw in raws:
            stream = binding.stream
            columns = [column for column in stream.columns if not column.required]
            if stream.name in self._looked_at or not columns or not _is_plain(binding):
                continue
            texts = _first_texts(raw)
            if texts:
                self._looked_at.add(stream.name)
            if spelled := find_spelled(columns, texts):
                emit(SpelledOtherwise(model, stream.name, spelled))


def find_spelled(
    columns: Sequence[Column], texts: Iterable[str | None]
) -> tuple[tuple[str, str], ...]:
    """The columns that none of these records has, each with a spelling in other
    capitals that they have."""
    names = {name for text in texts for name in _names_in(text)}
    in_capitals: dict[str, str] = {}
    for name in sorted(names):
        in_capitals.setdefault(name.lower(), name)
    read = {column.field for column in columns}
    absent = (column for column in columns if column.field not in names)
    found = ((column.name, in_capitals.get(column.field.lower())) for column in absent)
    return tuple(
        (column, name)
        for column, name in found
        if name is not None and name not in read
    )


def _is_plain(binding: StreamBinding) -> bool:
    """Whether the records are JSON without a schema, and no changes of a feed, which
    list the columns that they lack."""
    is_json = (
        binding.stream.record_format.is_document
        and not binding.has_changes
        and not binding.schema
    )
    return is_json and not binding.has_rows


def _names_in(text: str | None) -> Iterable[str]:
    try:
        record = json.loads(text or "")
    except ValueError:
        return ()
    return record if isinstance(record, dict) else ()


def _first_texts(raw: DataFrame) -> list[str | None]:
    text = F.col("value").cast("string")
    texts = raw.select(F.when(F.length("value") < LONGEST, text))
    return [row[0] for row in texts.limit(SAMPLE).collect()]
