"""Fields of a JSON document that its contract does not know, at any depth, each by its
path and with what it holds.

A path is `a.b` of a field in a struct, `items[0].b` of one in an array, and
`prices.chf.b` of one in a map. A name that has a dot, a bracket or a backtick in it
stands in backticks, so that a path is of one field.
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
    `value`; NULL where all are.

    A `value` is the JSON that stands in the document, of the last field of a name.
    Where the fields of an object cannot be told apart, as one is more than `DEPTH`
    levels deep or the text is no strict JSON, its `value` is NULL.
    """
    found = _unknown_in(text, columns, None)
    return F.when(_may_have_unknown(text, columns), F.when(F.size(found) > 0, found))


def is_untold(unknown: Column) -> Column:
    """Whether the fields of an object cannot be told apart."""
    return F.coalesce(
        F.exists(unknown, lambda field: field["value"].isNull()), F.lit(False)
    )


def untold_record() -> Column:
    """What `find_unknown` says of a document whose own fields cannot be told apart."""
    return F.array(_field(F.lit(""), F.lit(None).cast("string")))


def rescued_text(unknown: Column) -> Column:
    """The JSON object that has the unknown fields by their paths; NULL where there are
    none.

    A word that stands for a number, such as NaN, is a text there.
    """

    def member(field: Column) -> Column:
        return F.concat(
            _json_string(field["path"]), F.lit(":"), without_words(field["value"])
        )

    each = F.transform(unknown, member)
    return F.concat(F.lit("{"), F.array_join(each, ","), F.lit("}"))


def rescued_counts(rescued: Column) -> tuple[Column, Column]:
    """How many of the texts of `rescued_text` there are, and the paths in the most
    frequent of them, each in a line."""
    named = F.array_join(_named_fields(rescued), "\n")
    frequent = F.transform(
        F.call_function("approx_top_k", named, F.lit(NAMED_FIELDS)),
        lambda found: found["item"],
    )
    return F.count(rescued), F.array_join(frequent, "\n")


def split_names(counted: str) -> tuple[str, ...]:
    """The paths of `rescued_counts`, each once, as many as are named."""
    return tuple(dict.fromkeys(filter(None, counted.split("\n"))))[:NAMED_FIELDS]


def _named_fields(rescued: Column) -> Column:
    """The paths in a text of `rescued_text`, without the places in arrays, as many as
    are named; NULL where it is."""
    paths = F.transform(
        F.json_object_keys(rescued),
        lambda path: F.regexp_replace(path, r"\[[0-9]+\]", "[]"),
    )
    return F.slice(F.array_sort(F.array_distinct(paths)), 1, NAMED_FIELDS)


def say_unknown(unknown: Column) -> Column:
    """What is said of a record that has unknown fields: their paths."""
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
    """Whether there may be unknown fields, asked cheaply: without regard to values and
    places."""
    keys = F.json_object_keys(text)
    if has_structs(columns):
        return F.lit(True)
    return F.coalesce(F.size(F.array_except(keys, _names(columns))) > 0, F.lit(True))


def has_structs(columns: T.StructType) -> bool:
    """Whether names alone do not say whether there are unknown fields: within a column
    there may be some."""
    return any(_has_struct(field.dataType) for field in columns.fields)


def _unknown_in(text: Column, wanted: T.DataType, path: Column | None) -> Column:
    """The unknown fields in the text of a value of this type, which may be NULL; an
    empty array where there are none.

    `path` is None of the document itself.
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
    """The unknown fields of an object, of which `found` are the members, and those
    within its known ones."""
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
    """The unknown fields in the values of a map, of which `found` are the members."""
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
    """The unknown fields in the items of an array, which `found` are."""

    def unknown_of(item: Column, place: Column) -> Column:
        return _unknown_in(
            item, element, F.concat(path, F.lit("["), place.cast("string"), F.lit("]"))
        )

    each = F.transform(found, unknown_of)
    return _told_apart(text, r"^\s*+\[", text.rlike(WHOLE_ARRAY), path, F.flatten(each))


def _is_whole(found: Column, text: Column) -> Column:
    """Whether `found` are all members of an object."""
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
    """The fields of a value that `begins` so, where all within it was found; else one
    that has no value."""
    untold = (
        untold_record()
        if path is None
        else F.array(_field(path, F.lit(None).cast("string")))
    )
    is_there = F.coalesce(text.rlike(begins), F.lit(False))
    return F.when(~is_there, _none()).when(is_whole, fields).otherwise(untold)


def _last_of_each(found: Column) -> Column:
    """The members of an object in their order, of those of one name the last."""
    both = F.arrays_zip(found["names"], found["values"])  # the last one first
    last = F.filter(
        both,
        lambda member, place: (
            F.array_position(found["names"], member["names"]) == place + 1
        ),
    )
    return F.reverse(last)


def _below(path: Column | None, name: Column) -> Column:
    """The path of a field in what has this path."""
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
    """The text as JSON writes it."""
    written = F.to_json(F.array(text))
    return F.substring(written, F.lit(2), F.length(written) - 2)


def _has_struct(wanted: T.DataType) -> bool:
    """Whether values of a type are structs, or hold some."""
    match wanted:
        case T.StructType():
            return True
        case T.ArrayType(elementType=element) | T.MapType(valueType=element):
            return _has_struct(element)
        case _:
            return False
