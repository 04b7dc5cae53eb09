"""Decides whether records of a key may be read in another order than they were written
in."""

from __future__ import annotations

from lakesql.compile.select import Select
from lakesql.stream.stream import Stream


def why_unordered(select: Select) -> str:
    """Why a newer record of a key may be read before an older one; '' if the source
    keeps the order.

    A topic keeps all records with one record key in one partition, in order. So it
    keeps the order of the model's keys if these contain the stream's key.
    """
    outputs = {output.name.lower(): output for output in select.query.outputs or ()}
    for name in select.query.streams_read:
        stream = select.streams[name]
        made_of = {
            (outputs[key.lower()].column or "").lower()
            for key in select.writing.keys
            if key.lower() in outputs and outputs[key.lower()].stream == name
        }
        if why := _why(
            name,
            stream,
            {column.lower() for column in stream.key} <= made_of and bool(stream.key),
        ):
            return why
    return ""


def _why(name: str, stream: Stream, is_by_key: bool) -> str:
    if stream.ordered_by or stream.has_table_changes:
        return ""
    match stream.origin.brings:
        case "files":
            return f"the files of '{name}' are read in the order of their times, and lines of two have no other"
        case "rows":
            return f"the rows of one commit of '{name}' have no order"
        case "records" if stream.reads_several:
            return f"'{name}' reads several topics, between which there is no order"
        case "records" if not is_by_key:
            return (
                f"a topic with several partitions has no order between them, and those of a key of '{name}' may "
                + (
                    "stand in any: the stream names no key"
                    if not stream.key
                    else "stand in any: its key is another one"
                )
            )
        case _:
            return ""
