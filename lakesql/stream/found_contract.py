"""A contract guessed from samples of a stream: its columns, and what may be its key and
its sequence. Pure.

As samples only allow a guess, each column has a note on how often it was seen, and each
guess has its count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lakesql.counts import count, number
from lakesql.errors import ProjectError
from lakesql.names import check_column, is_reserved
from lakesql.stream.seen_values import FEW, FieldPath, SeenValues, find_type, find_usual

RawRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column that was found, the field that it is read from if that has another name,
    and a note for the reader."""

    name: str
    type: str
    from_field: str = ""
    required: bool = False
    note: str = ""

    @property
    def field(self) -> str:
        """The name of the field in records."""
        return self.from_field or self.name


@dataclass(frozen=True, slots=True)
class TypedField:
    """A field with the type that a schema gives it; '' if no column can hold it, for
    the reason `why`."""

    name: str
    type: str
    why: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Guess:
    """Columns that are probably a stream's key or sequence, and why. `is_likely`: the
    evidence is strong."""

    columns: tuple[str, ...]
    why: str
    is_likely: bool = False


@dataclass(frozen=True, slots=True)
class FoundContract:
    """The columns that were found; the fields left out, each with the reason; and the
    guesses, None where there is none."""

    columns: tuple[FoundColumn, ...]
    left_out: tuple[tuple[str, str], ...]
    key: Guess | None = None
    sequence: Guess | None = None


def contract_of_rows(
    rows: Sequence[RawRow], maps: Iterable[FieldPath] = ()
) -> FoundContract:
    """The contract that holds all values of the rows, its columns in the order in which
    their fields were first seen."""
    paths = frozenset(maps)
    seen: dict[str, SeenValues] = {}
    for row in rows:
        for name, value in row.items():
            if name not in seen:
                seen[name] = SeenValues((name,), paths)
            seen[name].add(value)
    by_often = sorted(seen, key=lambda name: -seen[name].present)
    names, left_out = _name_columns(list(seen), by_often)
    columns = [
        FoundColumn(
            name,
            find_type(seen[field]).text,
            field if field != name else "",
            note=_note(seen[field], rows),
        )
        for field, name in names.items()
    ]
    return FoundContract(tuple(columns), tuple(left_out))


def contract_of_fields(
    fields: Sequence[TypedField], rows: Sequence[RawRow] = ()
) -> FoundContract:
    """The contract of the fields that a schema declares; `rows` are samples, for
    notes."""
    typed = {each.name: each for each in fields if each.type}
    names, left_out = _name_columns(list(typed), list(typed))
    columns = []
    for field, name in names.items():
        it = typed[field]
        note = (
            _presence(sum(row.get(field) is not None for row in rows), len(rows))
            if rows
            else ""
        )
        columns.append(
            FoundColumn(
                name, it.type, field if field != name else "", it.required, note
            )
        )
    left_out += [(each.name, each.why) for each in fields if not each.type]
    return FoundContract(tuple(columns), tuple(left_out))


# --- names


def _name_columns(
    fields: Sequence[str], preferred: Sequence[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The column name for each field that can be read, and the reasons why others
    cannot.

    Of fields that differ only in case, the first in `preferred` is read: a contract can
    read only one of them.
    """
    chosen: dict[str, str] = {}
    for field in preferred:
        chosen.setdefault(field.strip().lower(), field)
    names: dict[str, str] = {}
    left_out: list[tuple[str, str]] = []
    taken = {field.lower() for field in fields if _is_column(field)}
    for field in fields:
        other = chosen[field.strip().lower()]
        if other != field:
            left_out.append(
                (
                    field,
                    f"a contract reads one of '{other}' and '{field}': capitals make no difference",
                )
            )
        elif _is_column(field):
            names[field] = field
        elif not field.strip() or is_reserved(field) or not field.isprintable():
            left_out.append((field, "no column can be read from a field of this name"))
        else:
            names[field] = _free_name(field, taken)
            taken.add(names[field].lower())
    return names, left_out


def _is_column(name: str) -> bool:
    try:
        check_column(name, None)
    except ProjectError:
        return False
    return name == name.strip()


def _free_name(field: str, taken: Collection[str]) -> str:
    """A valid column name made of the field's name that is not taken."""
    base = re.sub(r"[.`\s]+", "_", field.strip()).strip("_") or "column"
    name, times = base, 1
    while name.lower() in taken or not _is_column(name):
        times += 1
        name = f"{base}_{times}"
    return name


# --- notes


def _note(seen: SeenValues, rows: Sequence[RawRow]) -> str:
    if not seen.kinds:
        return "NULL in all samples: its type is a guess"
    said = [_presence(seen.present - seen.nulls, len(rows))]
    if usual := find_usual(seen):
        kind, others = usual
        said.append(
            f"{kind.text} but for {count(others, 'value')}, such as {seen.example[:40]!r}"
        )
    if seen.is_of("digits"):
        said.append("numbers in texts")
    elif seen.ends_in_zero and not seen.has_exponent and seen.is_number:
        said.append("written with zeros at its end, as decimals are")
    if seen.is_of("local", "instant") and len(seen.kinds) > 1:
        said.append("some have a time zone and some have none, which are taken for UTC")
    if seen.has_nanoseconds:
        said.append("digits below a microsecond are cut")
    if unit := _epoch_unit(seen):
        said.append(
            f"if it counts {unit} since 1970: {{type: timestamp, unit: {unit}}}"
        )
    if len(seen.fields) > MANY_FIELDS:
        said.append(
            f"{len(seen.fields)} fields: if they are keys, write it anew with --map"
        )
    return "; ".join(said)


MANY_FIELDS = 50
"""An object with more fields than this may be a map."""


def _presence(times: int, samples: int) -> str:
    if times == samples:
        return "in all samples"
    return f"missing or NULL in {number(samples - times)} of {count(samples, 'sample')}"


_EPOCHS = (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000))
_YEAR_2000, _YEAR_2100 = 946_684_800, 4_102_444_800


def _epoch_unit(seen: SeenValues) -> str:
    """The unit in which the whole numbers of a field may count time since 1970: the one
    in which all of them lie in this century; '' if there is none."""
    if not seen.is_of("whole") or seen.lowest is None or seen.largest is None:
        return ""
    for unit, factor in _EPOCHS:
        if _YEAR_2000 * factor <= seen.lowest and seen.largest < _YEAR_2100 * factor:
            return unit
    return ""


# --- guesses


def guess_key(
    contract: FoundContract,
    rows: Sequence[RawRow],
    stream: str,
    own_keys: Sequence[Any],
) -> Guess | None:
    """The columns that probably identify a record: those that the records' own keys
    hold, or one that is unique or named like a key. None if there is none.

    `own_keys` are the parsed keys of a topic's records, in the order of the rows; empty
    for files.
    """
    if (found := _key_of_records(contract, rows, own_keys)) is not None:
        return found
    candidates = [each for each in contract.columns if _may_be_key(each, rows)]
    for column in sorted(candidates, key=lambda each: _key_rank(each.name, stream)):
        values = [
            row[column.field] for row in rows if row.get(column.field) is not None
        ]
        is_named = _key_rank(column.name, stream) < UNNAMED
        if guess := _guess_column(column.name, values, len(rows), is_named):
            return guess
    return None


def _guess_column(
    name: str, values: Sequence[Hashable], samples: int, is_named: bool
) -> Guess | None:
    """The column as the key if its values are unique, or if only its name suggests it:
    records may be versions of rows. Else None."""
    different = len(set(values))
    if different == samples:
        return Guess(
            (name,),
            f"unique in {number(different)} of {count(samples, 'sample')}",
            is_named and samples > 1,
        )
    if not is_named:
        return None
    missing = (
        f", and none in {number(samples - len(values))}"
        if len(values) < samples
        else ""
    )
    return Guess(
        (name,),
        f"{count(different, 'different value')} in {count(samples, 'sample')}{missing}",
    )


def _key_of_records(
    contract: FoundContract, rows: Sequence[RawRow], own_keys: Sequence[Any]
) -> Guess | None:
    """The columns that the records' own keys hold, in all but a few records; None if
    there are none."""
    for names in _possible_keys(contract, own_keys):
        same = sum(
            _is_key_of(names, row, key)
            for row, key in zip(rows, own_keys, strict=False)
        )
        if same and (len(own_keys) - same) * FEW <= len(own_keys):
            why = f"the key of {number(same)} of {count(len(own_keys), 'record')}"
            by_field = {each.field: each.name for each in contract.columns}
            return Guess(tuple(by_field[name] for name in names), why, is_likely=True)
    return None


def _possible_keys(
    contract: FoundContract, own_keys: Sequence[Any]
) -> list[tuple[str, ...]]:
    """The fields that the keys of records may hold: those that a key in JSON names, or,
    for a bare value, each single field."""
    fields = [each.field for each in contract.columns]
    first = next((key for key in own_keys if key is not None), None)
    if isinstance(first, Mapping):
        return [tuple(first)] if first and set(first) <= set(fields) else []
    return [(name,) for name in fields] if first is not None else []


def _is_key_of(names: tuple[str, ...], row: RawRow, key: Any) -> bool:
    if isinstance(key, Mapping):
        return tuple(key) == names
    return (
        key is not None
        and row.get(names[0]) is not None
        and str(row[names[0]]) == str(key)
    )


_KEY_TYPES = re.compile(r"tinyint|smallint|int|bigint|string|decimal\(\d+,0\)")


def _may_be_key(column: FoundColumn, rows: Sequence[RawRow]) -> bool:
    """Whether the column's type can be a key, and all but a few rows have a value."""
    if not rows or not _KEY_TYPES.fullmatch(column.type):
        return False
    missing = sum(row.get(column.field) is None for row in rows)
    are_single = all(isinstance(row.get(column.field), Hashable) for row in rows)
    return missing * FEW <= len(rows) and are_single


UNNAMED = 3
"""The rank of a column whose name does not suggest that it is a key."""


def _key_rank(name: str, stream: str) -> int:
    """How strongly a column's name suggests that it is a key; 0 is the strongest."""
    lowered = name.lower()
    if lowered in (
        "id",
        f"{stream}_id",
        f"{stream.removesuffix('s')}_id",
        f"{stream}id",
    ):
        return 0
    if lowered in ("uuid", "guid", "key", "code"):
        return 1
    return (
        2 if re.search(r"(_id|[a-z]I[dD]|_uuid|_key|_no|_number)$", name) else UNNAMED
    )


_SEQUENCE = re.compile(
    r"(?i)(updated|modified|changed|version|sequence|seq|lsn|revision)(_?at|_?on|_?time|_?ts|_?no)?"
)
_EVENT = re.compile(r"(?i).*(_at|_ts|At|time|timestamp|date)|ts")


def guess_sequence(contract: FoundContract, rows: Sequence[RawRow]) -> Guess | None:
    """The column that probably orders the records of a key, with how often it rises in
    the samples; None if there is none."""
    found = [
        each
        for each in contract.columns
        if _may_order(each) and _is_mostly_there(each, rows)
    ]
    ranked = sorted(found, key=lambda each: not _SEQUENCE.fullmatch(each.name))
    if not ranked or len(rows) < 2:
        return None
    values = [
        row[ranked[0].field] for row in rows if row.get(ranked[0].field) is not None
    ]
    rising = sum(before <= after for before, after in pairwise(values))
    why = f"rises, or stays, from sample to sample in {number(rising)} of {number(len(values) - 1)}"
    return Guess((ranked[0].name,), why)


def _may_order(column: FoundColumn) -> bool:
    if column.type in ("timestamp", "timestamp_ntz"):
        return True
    is_whole = column.type in ("int", "bigint")
    return (
        is_whole
        and (_SEQUENCE.fullmatch(column.name) or _EVENT.fullmatch(column.name))
        is not None
    )


def _is_mostly_there(column: FoundColumn, rows: Sequence[RawRow]) -> bool:
    return sum(row.get(column.field) is None for row in rows) * FEW <= len(rows)
