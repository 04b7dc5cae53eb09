"""The text of JSON beyond what Spark's parser keeps: the records of a file, and values
exactly as written.

To make a number a text, Spark parses it as a double; objects and arrays it writes anew.
So 1.10 becomes 1.1, 1e400 becomes "Infinity" in quotes, and -0 becomes 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

DEPTH = 24
"""How many arrays and objects may be nested in each other if the text of a value is to
be found."""

_STRING = r'"(?:[^"\\]|\\.)*+"'


def _nested(opening: str = r"\[{") -> str:
    """A regular expression for an array or an object with everything in it. It is
    applied to text that is known to be JSON."""
    pattern = r'[\[{](?:[^"\[\]{}]|' + _STRING + r")*+[\]}]"
    for depth in range(DEPTH):
        first = opening if depth == DEPTH - 1 else r"\[{"
        pattern = (
            f"[{first}]" + r'(?:[^"\[\]{}]++|' + _STRING + "|" + pattern + r")*+[\]}]"
        )
    return pattern


_VALUE = f"(?:{_STRING}|{_nested()}|" + r'[^"\[\]{},\s]++)'


_OBJECTS = "(?s)(" + _nested("{") + ")"
"""The outermost objects of a text."""

_LISTED = r"\[\s*+(?:0\s*+(?:,\s*+0\s*+)*+)?+\]"
"""An array of objects, after each has been replaced by a 0."""

_MEMBER = (
    r"(?s)(?:^\s*+\{|\G(?<!^)\s*+,)\s*+(" + _STRING + r")\s*+:\s*+(" + _VALUE + ")"
)

_STRICT_VALUE = f"(?:{_STRING}|{_nested()}|[-+0-9A-Za-z.]++)"
_STRICT_MEMBER = rf"\s*+{_STRING}\s*+:\s*+{_STRICT_VALUE}\s*+"

WHOLE_OBJECT = (
    rf"(?s)\A\s*+\{{(?:{_STRICT_MEMBER}(?:,{_STRICT_MEMBER})*+|\s*+)\}}\s*+\z"
)
"""The pattern of an object of which `members` finds all members."""

WHOLE_ARRAY = rf"(?s)\A\s*+\[(?:\s*+{_STRICT_VALUE}\s*+(?:,\s*+{_STRICT_VALUE}\s*+)*+|\s*+)\]\s*+\z"
"""The pattern of an array of which `items` finds all values."""

_REWRITTEN = r"(?:-?[0-9]++[.eE]|-0|[-+]?[NI]|[\[{])"
"""How a value begins if Spark's text of it may differ from the record's."""

_REWRITTEN_FIRST = '-0123456789NI[{"'
"""The first characters of Spark's text of such a value. N and I are those of `NaN` and
`Infinity`, which `get_json_object` returns for 1e400."""


def members(text: Column) -> Column:
    """The members of an object, the last one first: `names`, and `values` as written.

    Only standard JSON is understood: names in single quotes, which Spark accepts, are
    not found.
    """
    written = F.regexp_extract_all(text, F.lit(_MEMBER), F.lit(1))
    names = F.from_json(
        F.concat(F.lit("["), F.array_join(written, ","), F.lit("]")),
        T.ArrayType(T.StringType()),
    )
    values = F.regexp_extract_all(text, F.lit(_MEMBER), F.lit(2))
    return F.struct(F.reverse(names).alias("names"), F.reverse(values).alias("values"))


def value_of(found: Column, name: Column) -> Column:
    """The value of the last member with this name in a result of `members`; NULL if
    there is none."""
    place = F.array_position(found["names"], name) - 1
    return F.get(found["values"], place.cast("int"))


def items(text: Column) -> Column:
    """The values of an array as written."""
    return F.regexp_extract_all(
        text, F.lit(r"(?s)(?:^\s*+\[|\G(?<!^)\s*+,)\s*+(" + _VALUE + ")"), F.lit(1)
    )


def is_rewritten(read: Column, record: Column, name: str) -> Column:
    """Whether Spark's text of a member may differ from the record's, by a cheap test.

    A value that is a JSON string never differs, whatever is in it.
    """
    # much faster than a pattern
    looks_so = F.left(read, F.lit(1)).isin(*_REWRITTEN_FIRST)
    if json.dumps(name) != f'"{name}"':
        # the name may be escaped in the record
        return F.coalesce(looks_so, F.lit(False))
    begins_so = record.rlike(f'"{re.escape(name)}"' + r"\s*+:\s*+" + _REWRITTEN)
    return F.coalesce(looks_so & begins_so, F.lit(False))


def has_rewritten(text: Column) -> Column:
    """Whether the text of an array or object may have values whose text Spark changes,
    by a cheap test."""
    return text.rlike(r"[:\[,]\s*+" + _REWRITTEN)


def as_written(read: Column, text: Column, wanted: T.DataType) -> Column:
    """A parsed value, in which texts that are no JSON strings in the record are
    replaced by the record's own spelling in `text`.

    If `text` is NULL, the value as parsed.
    """
    if not holds_text(wanted):
        return read
    match wanted:
        case T.StructType(fields=fields):

            def struct_of(found: Column) -> Column:
                values = (
                    (f, read[f.name], value_of(found, F.lit(f.name))) for f in fields
                )
                return F.struct(
                    *(
                        as_written(value, own, f.dataType).alias(f.name)
                        for f, value, own in values
                    )
                )

            return F.when(read.isNotNull(), bound(members(text), struct_of))
        case T.ArrayType(elementType=element):

            def array_of(found: Column) -> Column:
                each = F.transform(
                    read,
                    lambda item, place: as_written(item, F.get(found, place), element),
                )
                return F.when(F.size(found) == F.size(read), each).otherwise(read)

            return bound(items(text), array_of)
        case T.MapType(valueType=element):

            def map_of(found: Column) -> Column:
                return F.transform_values(
                    read,
                    lambda key, item: as_written(item, value_of(found, key), element),
                )

            return bound(members(text), map_of)
        case _:
            return F.when(read.isNotNull() & ~text.startswith('"'), text).otherwise(
                read
            )


def holds_text(wanted: T.DataType) -> bool:
    """Whether the type is text, or has texts nested within."""
    return any(isinstance(part, T.StringType) for part in parts_of(wanted))


def holds_float(wanted: T.DataType) -> bool:
    """Whether the type is a double or a float, or has some nested within."""
    return any(
        isinstance(part, T.DoubleType | T.FloatType) for part in parts_of(wanted)
    )


def parts_of(wanted: T.DataType) -> Iterator[T.DataType]:
    """The type itself, or the leaf types nested within it; the keys of maps are left
    out."""
    match wanted:
        case T.StructType(fields=fields):
            for field in fields:
                yield from parts_of(field.dataType)
        case T.ArrayType(elementType=element) | T.MapType(valueType=element):
            yield from parts_of(element)
        case _:
            yield wanted


def has_name_twice(found: Column) -> Column:
    """Whether a map that was parsed from an object has a key twice, as the object had
    the name twice."""
    return F.size(F.array_distinct(F.map_keys(found))) < F.size(found)


def holds_any(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds, however many there are; false if there are
    none."""
    return F.array_contains(F.array(F.lit(False), *conditions), True)


def bound(value: Column, use: Callable[[Column], Column]) -> Column:
    """The result of `use` for a value that it uses more than once. The value is
    evaluated once, as it is a lambda's argument."""
    return F.transform(F.array(value), use)[0]


_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_HALF = f"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}"


def invalid_text(text: Column) -> Column:
    """Why a JSON text holds a text that no table can store; NULL if it does not.

    Spark's parser replaces bytes that are not UTF-8 by U+FFFD, and a lone surrogate by
    `?`, without an error.
    """
    may_have_half = text.contains(r"\ud") | text.contains(r"\uD")
    # Without escaped backslashes, each backslash begins an escape of its own.
    escapes = F.replace(text, F.lit(r"\\"), F.lit(r"\u005c"))
    half = F.regexp_extract(escapes, f"({_LONE_HALF})", 1)
    said = F.concat(F.lit("half of a surrogate pair, which is no text: "), half)
    return F.when(~F.is_valid_utf8(text), F.lit("not UTF-8")).when(
        may_have_half & (half != ""), said
    )


def without_words(text: Column) -> Column:
    """The text of a value in which words for numbers, such as NaN, are in quotes, as
    JSON does not have them."""
    word = "(?:[-+]?(?:NaN|Infinity|INF))"
    before = rf'\G((?:{_STRING}|[^"NI+-]++|(?!{word})[NI+-])*+)'
    return F.when(
        text.rlike("NaN|INF|Infinity"),
        F.regexp_replace(text, f"{before}({word})", '$1"$2"'),
    ).otherwise(text)


def split_documents(files: DataFrame) -> DataFrame:
    """The records of whole files, in `value`: the objects of an array, or objects that
    follow each other.

    A file that has anything else is one record, which cannot be parsed.
    """
    text = _in_bytes(F.col("value"))
    mark = b"\xef\xbb\xbf".decode("latin-1")
    beside = F.regexp_replace(
        F.regexp_replace(text, "^" + mark, ""), F.lit(_OBJECTS), F.lit("0")
    )
    is_known = beside.rlike(rf"^\s*+(?:{_LISTED}|(?:0\s*+)*+)\s*+$")
    found = F.when(
        is_known, F.regexp_extract_all(text, F.lit(_OBJECTS), F.lit(1))
    ).otherwise(F.array(text))
    each = files.withColumn("value", F.explode(found))
    return each.withColumn("value", F.encode("value", "ISO-8859-1"))


def split_arrays(lines: DataFrame) -> DataFrame:
    """The records of lines, in `value`: the objects of a line that is an array of
    objects, and every other line unchanged."""
    whole = F.col("value").cast("binary")
    text = F.when(
        F.col("value").cast("string").rlike(r"\A\s*+\["), _in_bytes(F.col("value"))
    )
    is_known = F.regexp_replace(text, F.lit(_OBJECTS), F.lit("0")).rlike(
        rf"\A\s*+{_LISTED}\s*+\z"
    )
    objects = F.regexp_extract_all(text, F.lit(_OBJECTS), F.lit(1))
    items = F.transform(objects, lambda each: F.encode(each, "ISO-8859-1"))
    return lines.withColumn(
        "value", F.explode(F.when(is_known, items).otherwise(F.array(whole)))
    )


def _in_bytes(text: Column) -> Column:
    """The text with one character for each of its bytes, so that parts of it have the
    same bytes as in the whole."""
    return F.decode(text.cast("binary"), "ISO-8859-1")


def missing_field(text: Column, name: str) -> Column:
    """The text about a required field that a JSON text lacks: its name, and the name in
    another case if the text has that."""
    same = re.escape(json.dumps(name, ensure_ascii=False)[1:-1])
    other = F.regexp_extract(text, rf'"(?!{same}")((?iu){same})"\s*:', 1)
    spelled = F.concat(
        F.lit(f"{name}: the record has "),
        other,
        F.lit(", which a column reads by `from: "),
        other,
        F.lit("`"),
    )
    return F.when(other != "", spelled).otherwise(F.lit(name))
