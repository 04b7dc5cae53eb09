"""The keys of compiled models, kept as long as nothing of the project has changed: then
none is worked out again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lakesql.project.cache import CacheFile

_ENTRY = "keys"


class KnownKey(NamedTuple):
    """The key of a model's compiled text, and where its file stands below a folder of
    these."""

    key: str
    compiled_path: str


class KnownKeys:
    """The keys that are kept in the file `cache` for a `version` of the project; none,
    where that is ''."""

    def __init__(self, cache: Path, version: str) -> None:
        self._cache = CacheFile(cache) if version else None
        self._version = version
        kept = self._cache.get(_ENTRY, version) if self._cache is not None else None
        self._keys: dict[str, KnownKey] = {
            name: KnownKey(*found) for name, found in (kept or {}).items()
        }
        self._has_new = False

    def get(self, name: str) -> KnownKey | None:
        """What is known of a model."""
        return self._keys.get(name)

    def put(self, name: str, key: KnownKey) -> None:
        """Know it of a model, while this process runs and, after `save`, until the
        project changes."""
        self._keys[name] = key
        self._has_new = True

    def save(self) -> None:
        """Keep what is known now."""
        if self._cache is None or not self._has_new:
            return
        self._cache.put(_ENTRY, self._version, self._keys)
        self._cache.save((_ENTRY,))
        self._has_new = False
