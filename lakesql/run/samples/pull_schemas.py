"""`lakesql schema pull`: writes the newest schemas of subjects, and the tables of
feeds, into files of the project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakesql.errors import ProfileError, UsageError, did_you_mean
from lakesql.graph.manifest import Manifest
from lakesql.project.files import write_atomically
from lakesql.registry.connection import Registry
from lakesql.registry.registered import Registered
from lakesql.registry.registry_client import fetch_newest
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.run.streams.group_tables import pull_tables
from lakesql.stream.registry_columns import schema_path
from lakesql.stream.stream import Stream


@dataclass(frozen=True, slots=True)
class PulledSchema:
    """A file written by a pull, and whether its content has changed."""

    path: str
    is_changed: bool


def pull_schemas(manifest: Manifest, names: Sequence[str]) -> list[PulledSchema]:
    """Write the newest schema of each stream's subject, and the tables of each feed
    that a group mirrors, into the project; for the named streams, or for all if `names`
    is empty.

    Nothing is written unless all of them are found. Raises `UsageError` (`usage`),
    `ProfileError` (`unknown-subject`), and what asking a registry or a broker raises.
    """
    feeds = dict.fromkeys(group.stream for group in manifest.groups.values())
    known = {
        name: stream
        for name, stream in manifest.streams.items()
        if _has_values(stream) or name in feeds
    }
    for name in names:
        if name not in known:
            what = f"There is no stream '{name}' with a registry, and none whose tables a group mirrors."
            raise UsageError.of("usage", what, fix=did_you_mean(name, known))
    chosen = [known[name] for name in names] or [*known.values()]
    folder = manifest.settings.paths.streams
    texts: dict[str, str] = {}
    for each in chosen:
        if each.name in feeds:
            texts |= pull_tables(manifest, each)
        else:
            texts |= _files_of(
                _newest(manifest.target.registry_of(each), each),
                schema_path(each, folder),
            )
    return [_write(manifest.directory, path, text) for path, text in texts.items()]


def _has_values(stream: Stream) -> bool:
    """Whether the registry has schemas of the stream's values, and not of its keys
    alone."""
    return bool(stream.registry and stream.record_format.schema_kind)


def _files_of(found: Registered, path: str) -> dict[str, str]:
    """The texts of the files of a schema and of those that it imports, by path."""
    kind = SCHEMA_KINDS[found.kind]
    imported = {
        f"{path.removesuffix(kind.suffix)}/{name}": kind.tidy(text)
        for name, text in found.files
    }
    return {path: kind.tidy(found.text), **imported}


def _newest(registry: Registry, stream: Stream) -> Registered:
    if not stream.value_subject:
        what = f"Stream '{stream.name}' reads several topics, and names no subject."
        raise ProfileError.of(
            "unknown-subject", what, fix="Give it a `subject`.", place=stream.place
        )
    found = fetch_newest(registry, stream.value_subject)
    if found is None:
        what = f"The registry {registry.name} has no subject '{stream.value_subject}', which stream '{stream.name}' has."
        raise ProfileError.of("unknown-subject", what, place=stream.place)
    kind = SCHEMA_KINDS[stream.record_format.schema_kind]
    if found.kind != kind.name:
        what = f"Subject '{stream.value_subject}' has a schema of {found.kind}, and not of {kind.title}."
        raise ProfileError.of("unknown-subject", what, place=stream.place)
    return found


def _write(directory: Path, path: str, text: str) -> PulledSchema:
    file = directory / path
    if file.is_file() and file.read_text("utf-8") == text:
        return PulledSchema(path, is_changed=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)
    return PulledSchema(path, is_changed=True)
