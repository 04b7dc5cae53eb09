"""How a model's configuration is read: `config(...)` over the defaults of its folders,
decoded as the options of its mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lakesql.decode import Node, decode, fields_of, read_entries
from lakesql.errors import Problem, ProjectError, did_you_mean
from lakesql.model.config import (
    READ_WORDS,
    MaintenanceConfig,
    ReadsFrom,
    TableConfig,
    as_items,
)
from lakesql.modes.all_modes import MODES, find_mode, mode_words, namesakes
from lakesql.project.procedures import merge_maintenance
from lakesql.stream.client import find_client_options
from lakesql.words import answer, suggest

REMOVED: Mapping[str, str] = {
    "fence": "Each batch is staged and published by an atomic check. There is no other way to commit one.",
}
"""The options that earlier versions had, each with the reason why it was removed."""


def read_config(
    node: Node, defaults: Node, reads: ReadsFrom = "streams"
) -> TableConfig | MaintenanceConfig:
    """A model's configuration: its `config(...)`, `node`, over the `defaults` of its
    folders. `reads` is what its SELECT reads, as a mode's name may mean two modes.

    Defaults that the mode does not have are ignored: another mode has them, or
    `check_defaults` reports them. Raises `ProjectError`: `missing-option` without a
    mode, `unknown-mode`, `removed-option`, and what decoding finds.
    """
    merged = merge_config(defaults, node)
    mode = merged.get("mode")
    if mode is None:
        fix = f"Add mode='…' to config(…). {did_you_mean('', mode_words())}"
        foreign_words = {
            key: said for key in node.entries() if (said := answer("config", key))
        }
        said_of = (
            Problem(
                "unknown-option",
                f"A model has no option '{key}'.",
                "",
                said,
                node.key_place(key),
            )
            for key, said in foreign_words.items()
        )
        raise ProjectError(
            [
                Problem(
                    "missing-option", "The model has no mode.", "", fix, node.place
                ),
                *said_of,
            ]
        )
    kind = find_mode(mode.value, reads) if isinstance(mode.value, str) else None
    if kind is None:
        fix = suggest("mode", str(mode.value), mode_words())
        raise ProjectError.of(
            "unknown-mode", f"{mode.shown} is not a mode.", fix=fix, place=mode.place
        )
    inherited = set(defaults.entries()) - set(node.entries())
    foreign = inherited - {
        field.name for field in fields_of(kind) if field.is_inherited
    }
    own = {
        key: value
        for key, value in merged.entries().items()
        if key == "mode" or key not in foreign
    }
    merged = Node(own, merged.place, merged.keys)
    what = f"mode '{mode.value}'"
    of_namesakes = _options_of_namesakes(merged, kind, what)
    removed = {
        key: _removed(key).at(merged.keys.get(key, merged.place))
        for key in REMOVED
        if merged.get(key)
    }
    clients = {**find_client_options(merged, what), **of_namesakes, **removed}
    try:
        config = decode(
            merged,
            kind,
            what=what,
            words="config",
            ignore=frozenset({"mode", *clients}),
        )
    except ProjectError as error:
        raise ProjectError([*clients.values(), *error.problems]) from None
    if clients:
        raise ProjectError(clients.values())
    return config


def _options_of_namesakes(
    node: Node, kind: type[TableConfig | MaintenanceConfig], what: str
) -> Mapping[str, Problem]:
    """A problem for each given option that only the other mode of the same name has,
    by option: a SELECT over streams and one over tables have different modes."""
    if not issubclass(kind, TableConfig):
        return {}
    found = {}
    own = {field.name for field in fields_of(kind)}
    for other in namesakes(kind.mode):
        theirs = {field.name for field in fields_of(other)} - own
        for key in (key for key in node.entries() if key in theirs):
            wrong = f"{what} has no option '{key}' where the SELECT reads {READ_WORDS[kind.reads]}."
            fix = f"Leave it out; or let the SELECT read {READ_WORDS[other.reads]}."
            found[key] = Problem("unknown-option", wrong, "", fix, node.key_place(key))
    return found


def _removed(key: str) -> Problem:
    return Problem("removed-option", f"The option '{key}' was removed.", REMOVED[key])


def merge_config(outer: Node, inner: Node) -> Node:
    """The options `inner` merged over `outer`: tags are joined, `meta`, `properties`
    and `maintenance` are merged key by key, all others are replaced."""
    entries = dict(outer.entries())
    for key, node in inner.entries().items():
        if key == "tags" and key in entries:
            entries[key] = Node((*as_items(entries[key]), *as_items(node)), node.place)
        elif key in ("meta", "properties") and key in entries:
            under = entries[key]
            entries[key] = Node(
                {**under.entries(), **node.entries()},
                node.place,
                {**under.keys, **node.keys},
            )
        elif key == "maintenance" and key in entries:
            entries[key] = merge_maintenance(entries[key], node)
        else:
            entries[key] = node
    return Node(entries, inner.place, {**outer.keys, **inner.keys})


def folder_defaults(settings: Node, fqn: tuple[str, ...]) -> Node:
    """The default options of a model in `[tool.lakesql.models]`, those of inner folders
    over those of outer ones. `fqn` is the model's fully qualified name.

    In a folder's table, a key whose value is a table is a subfolder or a model, unless
    it is an option that takes one.
    """
    merged, level = Node({}, settings.place), settings
    for part in (*fqn[1:], ""):
        own = {
            key: node
            for key, node in level.entries().items()
            if not _is_folder(key, node)
        }
        merged = merge_config(merged, Node(own, level.place, level.keys))
        child = level.get(part)
        if child is None or not _is_folder(part, child):
            break
        level = child
    return merged


def check_defaults(settings: Node) -> None:
    """Raise `ProjectError` (`unknown-option`, `removed-option`) with every default that
    no mode has."""
    read_entries(settings, _check_default)


def _check_default(key: str, node: Node) -> None:
    known = {
        "mode",
        *(field.name for kind in MODES.values() for field in fields_of(kind)),
    }
    if _is_folder(key, node):
        check_defaults(node)
    elif key in REMOVED:
        raise ProjectError([_removed(key)])
    elif key not in known:
        raise ProjectError.of(
            "unknown-option",
            f"No mode has an option '{key}'.",
            fix=suggest("config", key, known),
        )


def check_folders(
    settings: Node, names: Iterable[tuple[str, ...]]
) -> Iterator[Problem]:
    """A problem (`unknown-folder`) for each folder or model that has defaults and does
    not exist, given the models' fully qualified names.

    Such defaults would have no effect, so that a table might be written to another
    namespace than its author believes.
    """
    return _check_level(settings, [name[1:] for name in names], "")


def _check_level(
    settings: Node, names: list[tuple[str, ...]], inside: str
) -> Iterator[Problem]:
    known = {name[0] for name in names if name}
    for key, node in settings.entries().items():
        if _is_folder(key, node) and key in known:
            yield from _check_level(
                node,
                [name[1:] for name in names if name[:1] == (key,)],
                f"{inside}{key}/",
            )
        elif _is_folder(key, node):
            place = settings.keys.get(key, node.place)
            what = f"There is no folder and no model '{inside}{key}' that these defaults could be for."
            fix = f"{did_you_mean(key, known | _TABLES)} Correct the name, or remove these defaults."
            yield Problem("unknown-folder", what, "", fix, place)


def _is_folder(key: str, node: Node) -> bool:
    return isinstance(node.value, Mapping) and key not in _TABLES


_TABLES = frozenset({"meta", "properties", "maintenance"})
"""The options whose value is a table of TOML."""
