"""Which fields of a JSON document its contract does not know, at any depth, each with
its path and its value.

A path is `a.b` for a field in a struct, `items[0].b` for one in an array, and
`prices.chf.b` for one in a map. A name with a dot, a bracket or a backtick in it is in
backticks, so that no two fields have the same path.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.json_text import (
    WHOLE_ARRAY,
    WHOLE_OBJECT,
    bound,
    items,
    members,
    value_of,
    without_words,
)
from lakesql.events import NAMED_FIELDS


def find_unknown(text: Column, columns: T.StructType) -> Column:
    """The fields of a document that the columns do not know, as an array of `path` and
    `value`; NULL if there are none.

    `value` is the JSON as written; of fields with the same name the last is taken. For
    an object whose fields cannot be determined, as they are more than `DEPTH` levels
    deep or the text is not standard JSON, there is one entry whose `value` is NULL.
    """
    found = _unknown_in(text, columns, None)
    return F.when(_may_have_unknown(text, columns), F.when(F.size(found) > 0, found))


def is_untold(unknown: Column) -> Column:
    """Whether an object has fields that could not be determined."""
    return F.coalesce(
        F.exists(unknown, lambda field: field["value"].isNull()), F.lit(False)
    )


def untold_record() -> Column:
    """The result of `find_unknown` for a document whose own fields cannot be
    determined."""
    return F.array(_field(F.lit(""), F.lit(None).cast("string")))


def rescued_text(unknown: Column) -> Column:
    """A JSON object of the unknown fields by their paths; NULL if there are none.

    A word for a number, such as NaN, is a string in it.
    """

    def member(field: Column) -> Column:
        return F.concat(
            _json_string(field["path"]), F.lit(":"), without_words(field["value"])
        )

    each = F.transform(unknown, member)
    return F.concat(F.lit("{"), F.array_join(each, ","), F.lit("}"))


def rescued_counts(rescued: Column) -> tuple[Column, Column]:
    """Two aggregates over `rescued_text`: the number of texts that are not NULL, and
    the paths in the most frequent ones, one per line."""
    named = F.array_join(_named_fields(rescued), "\n")
    frequent = F.transform(
        F.call_function("approx_top_k", named, F.lit(NAMED_FIELDS)),
        lambda found: found["item"],
    )
    return F.count(rescued), F.array_join(frequent, "\n")


def split_names(counted: str) -> tuple[str, ...]:
    """The distinct paths in a result of `rescued_counts`, at most `NAMED_FIELDS`."""
    return tuple(dict.fromkeys(filter(None, counted.split("\n"))))[:NAMED_FIELDS]


def _named_fields(rescued: Column) -> Column:
    """The first `NAMED_FIELDS` paths of a `rescued_text`, sorted and without array
    indexes; NULL if the text is."""
    paths = F.transform(
        F.json_object_keys(rescued),
        lambda path: F.regexp_replace(path, r"\[[0-9]+\]", "[]"),
    )
    return F.slice(F.array_sort(F.array_distinct(paths)), 1, NAMED_FIELDS)


def say_unknown(unknown: Column) -> Column:
    """The text about a record that has unknown fields: their paths."""
    paths = F.transform(unknown, lambda field: field["path"])
    named = F.array_join(F.slice(paths, 1, NAMED_FIELDS), ", ")
    more = F.when(
        F.size(paths) > NAMED_FIELDS,
        F.concat(F.lit(" and "), F.size(paths) - NAMED_FIELDS, F.lit(" more")),
    ).otherwise("")
    said = F.concat(named, more, F.lit(": the contract has no such field"))
    where = F.get(F.filter(unknown, lambda field: field["value"].isNull()), F.lit(0))[
        "path"
    ]
    untold = F.concat(
        F.when(where == "", F.lit("the record")).otherwise(where),
        F.lit(
            ": its fields cannot be told apart, as they are nested too deep or no strict JSON"
        ),
    )
    return F.when(is_untold(unknown), untold).otherwise(said)


def _may_have_unknown(text: Column, columns: T.StructType) -> Column:
    """Whether there may be unknown fields, by a cheap test of the names alone."""
    keys = F.json_object_keys(text)
    if has_structs(columns):
        return F.lit(True)
    return F.coalesce(F.size(F.array_except(keys, _names(columns))) > 0, F.lit(True))


def has_structs(columns: T.StructType) -> bool:
    """Whether a column has structs, in which there may be unknown fields too, so that
    the names of the columns do not tell."""
    return any(_has_struct(field.dataType) for field in columns.fields)


def _unknown_in(text: Column, wanted: T.DataType, path: Column | None) -> Column:
    """The unknown fields in the text of a value of this type, which may be NULL; an
    empty array if there are none.

    `path` is that of the value, None for the document itself.
    """
    match wanted:
        case T.StructType():
            return bound(
                members(text), lambda found: _unknown_of(found, text, wanted, path)
            )
        case T.ArrayType(elementType=element) if _has_struct(element):
            return bound(
                items(text),
                lambda found: _unknown_of_items(found, text, element, _known(path)),
            )
        case T.MapType(valueType=element) if _has_struct(element):
            return bound(
                members(text),
                lambda found: _unknown_of_values(found, text, element, _known(path)),
            )
        case _:
            return _none()


def _unknown_of(
    found: Column, text: Column, wanted: T.StructType, path: Column | None
) -> Column:
    """The unknown fields of an object with these members (`found`), and those nested in
    its known ones."""
    known = _names(wanted)
    own = F.transform(
        F.filter(
            _last_of_each(found),
            lambda member: ~F.array_contains(known, member["names"]),
        ),
        lambda member: _field(_below(path, member["names"]), member["values"]),
    )
    within = [
        _unknown_in(
            value_of(found, F.lit(field.name)),
            field.dataType,
            _below(path, F.lit(field.name)),
        )
        for field in wanted.fields
        if _has_struct(field.dataType)
    ]
    return _told_apart(
        text, r"^\s*+\{", _is_whole(found, text), path, F.concat(own, *within)
    )


def _unknown_of_values(
    found: Column, text: Column, element: T.DataType, path: Column
) -> Column:
    """The unknown fields in the values of a map with these members (`found`)."""
    each = F.transform(
        _last_of_each(found),
        lambda member: _unknown_in(
            member["values"], element, _below(path, member["names"])
        ),
    )
    return _told_apart(text, r"^\s*+\{", _is_whole(found, text), path, F.flatten(each))


def _unknown_of_items(
    found: Column, text: Column, element: T.DataType, path: Column
) -> Column:
    """The unknown fields in the items of an array (`found`)."""

    def unknown_of(item: Column, place: Column) -> Column:
        return _unknown_in(
            item, element, F.concat(path, F.lit("["), place.cast("string"), F.lit("]"))
        )

    each = F.transform(found, unknown_of)
    return _told_apart(text, r"^\s*+\[", text.rlike(WHOLE_ARRAY), path, F.flatten(each))


def _is_whole(found: Column, text: Column) -> Column:
    """Whether `found` has all members of an object."""
    names = found["names"]
    is_counted = F.coalesce(
        F.size(F.json_object_keys(text)) == F.size(names), F.lit(True)
    )
    return F.coalesce(
        text.rlike(WHOLE_OBJECT) & names.isNotNull() & is_counted, F.lit(False)
    )


def _told_apart(
    text: Column, begins: str, is_whole: Column, path: Column | None, fields: Column
) -> Column:
    """The unknown fields of a value if all within it were found (`is_whole`); else one
    entry without a value. An empty array if the text does not begin like the expected
    object or array."""
    untold = (
        untold_record()
        if path is None
        else F.array(_field(path, F.lit(None).cast("string")))
    )
    is_there = F.coalesce(text.rlike(begins), F.lit(False))
    return F.when(~is_there, _none()).when(is_whole, fields).otherwise(untold)


def _last_of_each(found: Column) -> Column:
    """The members of an object in order; of members with the same name the last."""
    both = F.arrays_zip(found["names"], found["values"])  # the last one first
    last = F.filter(
        both,
        lambda member, place: (
            F.array_position(found["names"], member["names"]) == place + 1
        ),
    )
    return F.reverse(last)


def _below(path: Column | None, name: Column) -> Column:
    """The path of a field in the value at this path."""
    quoted = F.concat(F.lit("`"), F.replace(name, F.lit("`"), F.lit("``")), F.lit("`"))
    step = F.when(name.rlike(r"[.\[\]`]"), quoted).otherwise(name)
    return step if path is None else F.concat(path, F.lit("."), step)


def _known(path: Column | None) -> Column:
    assert path is not None, "a document is an object with columns"
    return path


def _field(path: Column, value: Column) -> Column:
    return F.struct(path.alias("path"), value.alias("value"))


def _none() -> Column:
    return F.array().cast("array<struct<path:string,value:string>>")


def _names(columns: T.StructType) -> Column:
    return F.array(*(F.lit(name) for name in columns.names)).cast("array<string>")


def _json_string(text: Column) -> Column:
    """The text as a JSON string."""
    written = F.to_json(F.array(text))
    return F.substring(written, F.lit(2), F.length(written) - 2)


def _has_struct(wanted: T.DataType) -> bool:
    """Whether the type is a struct, or has structs nested within."""
    match wanted:
        case T.StructType():
            return True
        case T.ArrayType(elementType=element) | T.MapType(valueType=element):
            return _has_struct(element)
        case _:
            return False
