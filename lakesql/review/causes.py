"""Where the cause of a difference is in the project's files: in the model, a macro, a
variable, a folder's options, a stream, or the target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakesql.compile.select import Select
from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.graph.manifest import reads_model
from lakesql.model.model import Model
from lakesql.modes.read_config import folder_defaults
from lakesql.project.catalog import is_same_catalog
from lakesql.project.settings import SETTINGS_FILE
from lakesql.project.yaml import parse_yaml
from lakesql.registry.registered import Registered
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.review.version import Version
from lakesql.select.differences import first_change
from lakesql.select.query import Output
from lakesql.stream.registry_columns import schema_path
from lakesql.stream.stream import Stream
from lakesql.template.reader import Macro


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """A model in both versions of the project, each with its SELECT. `renames` maps new
    names of models to their former names."""

    old: Version
    new: Version
    before: Select
    after: Select
    renames: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The model in the new version."""
        return self.after.model

    @property
    def is_same_table(self) -> bool:
        """Whether both versions write the same table: of the same name, in the same
        catalog."""
        catalogs = [version.manifest.target.catalog for version in (self.old, self.new)]
        return self.before.model.table == self.after.model.table and is_same_catalog(
            *catalogs
        )


def sql_place(change: ModelVersions, offset: int) -> Place:
    """The place of the cause of a change at `offset` in the new SELECT.

    If the text there comes from a macro, a variable or the target, and that has changed
    while the model's own text has not, it is the place of the macro, variable or
    target.
    """
    rendered, source = change.after.rendered, change.model.source
    here = rendered.place(offset)
    is_edited = source != change.before.model.source
    piece = max(
        (it for it in rendered.pieces if it.start <= offset),
        key=lambda it: it.start,
        default=None,
    )
    text = rendered.lines.text
    if is_edited and (piece is None or piece.verbatim):
        return here
    written = (
        text[piece.origin : text.find("}}", piece.origin) + 2]
        if piece and not piece.verbatim
        else text
    )
    if is_edited and written not in change.before.rendered.lines.text:
        return here
    words = set(re.findall(r"\w+", written))
    found = next(_outside(change, words), None) or (
        None if is_edited else next(_outside(change, None), None)
    )
    return found or here


def column_place(change: ModelVersions, name: str) -> Place:
    """The place of the cause why a column is new, gone or of another type."""
    is_edited = change.model.source != change.before.model.source
    for version, select in ((change.new, change.after), (change.old, change.before)):
        output = _output(select, name)
        if output is None:
            continue
        if not is_edited and (
            found := _upstream_place(change, version, select, output)
        ):
            return found
        if select is change.after:
            return sql_place(change, output.offset)
    if not is_edited and (found := _joined_place(change, name)):
        return found
    for added in change.after.writing.added:
        if added.name.lower() == name.lower():
            is_said = change.model.said.get(added.option)
            return option_place(
                change.new, change.model, added.option if is_said else "mode"
            )
    return sql_place(
        change, first_change(change.before.query.sql, change.after.query.sql)
    )


def option_place(version: Version, model: Model, option: str) -> Place:
    """Where a model's option is set: in its own file, for its folder, or in the target;
    the model's `config` if it is not set."""
    if model.said.get(option):
        return model.option_place(option)
    folders = folder_defaults(version.files.settings.models, model.fqn)
    if folders.get(option):
        return folders.key_place(option)
    if version.target is not None and version.target.get(option):
        return version.target.key_place(option)
    return model.option_place(option)


def changed_option_place(change: ModelVersions, option: str) -> Place:
    """The place of the cause why an option has another value. If the option was set for
    a folder or in the target and no longer is, it is the `models` section of the
    settings, or the target."""
    before = option_place(change.old, change.before.model, option)
    after = option_place(change.new, change.model, option)
    is_said = after != change.model.said.place
    if not is_said and before.path != change.before.model.path:
        in_settings = before.path == SETTINGS_FILE
        return (
            change.new.files.settings.models.place
            if in_settings
            else target_place(change.new, option)
        )
    return after


def target_place(version: Version, *keys: str) -> Place:
    """The place of a key in the target, or of a key nested in it. If the key is not
    there, the nearest enclosing place."""
    place, at = Place("profiles.yml"), version.target
    for key in keys:
        if at is None or not isinstance(at.value, dict):
            return place
        place, at = at.key_place(key), at.value.get(key)
    return place


def connection_place(version: Version, name: str) -> Place:
    """The place of a connection in the target; that of `connections` if there is no
    such connection."""
    connections = (
        version.target.get("connections") if version.target is not None else None
    )
    known = (
        connections is not None
        and isinstance(connections.value, dict)
        and name in connections.value
    )
    return (
        connections.key_place(name)
        if connections and known
        else target_place(version, "connections")
    )


def stream_place(version: Version, stream: Stream, *keys: str) -> Place:
    """The place of a key in a stream's declaration, or of one of its columns
    (`columns`, the name); the stream's place if it does not have the key.

    The columns of a pulled contract are in the file of the subject's schema. Its start
    is returned for columns that are no longer in it.
    """
    if stream.pulled is not None and keys[:1] == ("columns",):
        path = schema_path(stream, version.files.settings.paths.streams)
        return _find_field(stream.pulled, path, keys[-1]) or Place(path)
    return (
        _find_key(version, stream.place, "streams", stream.name, keys) or stream.place
    )


def _find_field(schema: Registered, path: str, name: str) -> Place | None:
    """The first place in a schema's text that names a field, by the pattern of its kind
    of schema: in Avro, the name in quotes."""
    at = re.search(
        SCHEMA_KINDS[schema.kind].field_pattern.format(name=re.escape(name)),
        schema.text,
    )
    if at is None:
        return None
    before = schema.text[: at.start(1)]
    return Place(path, before.count("\n") + 1, at.start(1) - before.rfind("\n"))


def properties_place(version: Version, model: Model, *keys: str) -> Place:
    """The place of a key in the properties of a model; the properties' own place if
    they do not have it."""
    place = model.properties.place
    return _find_key(version, place, "models", model.name, keys) or place


def _find_key(
    version: Version, place: Place, section: str, name: str, keys: Iterable[str]
) -> Place | None:
    try:
        node = parse_yaml(place.path, version.text(place.path)).get(section)
    except ProjectError:
        return None
    entries = node.value if node is not None and isinstance(node.value, tuple) else ()
    at = next((it for it in entries if _says(it, name)), None)
    found = None
    for key in keys:
        if at is None:
            return found
        if isinstance(at.value, tuple):
            at = next((it for it in at.value if _says(it, key)), None)
            found = at.key_place("name") if at else found
            continue
        found = at.keys.get(key, found) if isinstance(at.value, dict) else found
        at = at.value.get(key) if isinstance(at.value, dict) else None
    return found


def _says(node: Node, name: str) -> bool:
    said = node.value.get("name") if isinstance(node.value, dict) else None
    return said is not None and str(said.value).lower() == name.lower()


def _output(select: Select, name: str) -> Output | None:
    return next(
        (it for it in select.query.outputs or () if it.name.lower() == name.lower()),
        None,
    )


def _upstream_place(
    change: ModelVersions, version: Version, select: Select, output: Output
) -> Place | None:
    """The place of the cause, in what the SELECT reads, why a column is new, gone or of
    another type; None if there is none.

    A column passed on from a stream leads to the stream's contract, or to the model
    whose table is streamed; an expression leads to the contract of the first column in
    it whose type has changed.
    """
    if not (output.stream and output.column):
        return _retyped_place(change, select, output)
    read = reads_model(version.manifest, output.stream)
    if read is None:
        stream = change.new.manifest.streams.get(output.stream)
        return (
            stream_place(change.new, stream, "columns", output.column)
            if stream
            else None
        )
    upstream = find_change(change.old, change.new, read.name)
    return column_place(upstream, output.column) if upstream else None


def _retyped_place(
    change: ModelVersions, select: Select, output: Output
) -> Place | None:
    """The place in a contract of a column whose type has changed and that the
    expression of `output` uses; None if there is none.

    An output's offset is that of its alias, so its expression is the text between the
    previous output and that.
    """
    others = select.query.outputs or ()
    begin = max(
        (it.offset + len(it.name) for it in others if it.offset < output.offset),
        default=0,
    )
    words = {
        word.lower()
        for word in re.findall(r"\w+", select.query.sql[begin : output.offset])
    }
    for name in select.query.streams_read:
        streams = [
            version.manifest.streams.get(name) for version in (change.old, change.new)
        ]
        if streams[0] is None or streams[1] is None:
            continue
        types = [
            {column.name.lower(): column.type for column in stream.columns}
            for stream in streams
            if stream
        ]
        for key in sorted(types[0].keys() & types[1].keys() & words):
            if types[0][key] != types[1][key]:
                return stream_place(change.new, streams[1], "columns", key)
    return None


def _joined_place(change: ModelVersions, name: str) -> Place | None:
    """The place of the cause, in another model, why a column that `*` takes from that
    model's table is new or gone; None if there is none."""
    for reference in change.model.facts.refs:
        upstream = find_change(change.old, change.new, reference.name)
        if upstream is None:
            continue
        names = [
            {it.name.lower() for it in select.query.outputs or ()}
            for select in (upstream.before, upstream.after)
        ]
        if name.lower() in names[0] ^ names[1]:
            return column_place(upstream, name)
    return None


def find_change(old: Version, new: Version, name: str) -> ModelVersions | None:
    """A model in both versions; None if one of them does not have it, or its SELECT
    cannot be compiled there."""
    if name not in old.manifest.models or name not in new.manifest.models:
        return None
    before, after = old.select(name), new.select(name)
    return (
        ModelVersions(old, new, before, after)
        if isinstance(before, Select) and isinstance(after, Select)
        else None
    )


def _outside(change: ModelVersions, words: set[str] | None) -> Iterator[Place]:
    """The places of changes outside the model's file that its template depends on:
    macros, variables, tables of other models, and the target. If `words` is not None,
    only the macros and variables that are named in it count."""
    yield from _changed_macros(change, words)
    yield from _changed_vars(change, words)
    yield from _changed_tables(change)
    if "target" in change.model.facts.reads:
        yield from _changed_target(change)


def _changed_macros(change: ModelVersions, words: set[str] | None) -> Iterator[Place]:
    before, macros = (
        change.old.manifest.macros.by_name,
        change.new.manifest.macros.by_name,
    )
    called = change.model.facts.macros if words is None else words & macros.keys()
    for name in sorted(_reach(macros, called)):
        former = before.get(name)
        if former is None or former.text != macros[name].text:
            yield _macro_place(macros[name], former)


def _changed_vars(change: ModelVersions, words: set[str] | None) -> Iterator[Place]:
    declared = change.new.files.settings.vars
    for name in sorted(change.model.facts.vars):
        if words is not None and name not in words:
            continue
        if change.old.manifest.vars.get(name) != change.new.manifest.vars.get(name):
            yield declared.key_place(name) if declared.get(name) else declared.place


def _changed_tables(change: ModelVersions) -> Iterator[Place]:
    """Places of models that the template refers to and whose table is another one
    now."""
    for reference in change.model.facts.refs:
        before = change.old.manifest.models.get(reference.name)
        after = change.new.manifest.models.get(reference.name)
        if before is None or after is None or before.table == after.table:
            continue
        option = "table" if before.table.name != after.table.name else "namespace"
        yield option_place(change.new, after, option)


def _changed_target(change: ModelVersions) -> Iterator[Place]:
    before, after = change.old.manifest.target, change.new.manifest.target
    if before.namespace != after.namespace:
        yield target_place(change.new, "namespace")
    if before.catalog.name != after.catalog.name:
        yield target_place(change.new, "catalog")


def _reach(macros: dict[str, Macro] | object, names: Iterable[str]) -> set[str]:
    assert isinstance(macros, dict)
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in macros and name not in reached:
            reached.add(name)
            waiting.extend(macros[name].calls)
    return reached


def _macro_place(macro: Macro, former: Macro | None) -> Place:
    """The place at which a macro's text begins to differ from its former text."""
    start = macro.source.text.find(macro.text)
    same = 0
    if former is not None:
        pairs = zip(macro.text, former.text, strict=False)
        same = next(
            (number for number, (one, other) in enumerate(pairs) if one != other), 0
        )
    return macro.source.place(max(start, 0) + same)
