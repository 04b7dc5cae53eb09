"""Checks that the values in the files of seeds are of their declared types. Needs no
JVM."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from lakesql.decode import collect
from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.cache import CacheFile
from lakesql.project.files import decode_seed, read_seed_content
from lakesql.seed.seed import Seed
from lakesql.seed.seed_rows import read_rows
from lakesql.seed.seed_values import find_zone


def check_seeds(
    manifest: Manifest, names: Iterable[str], *, saves: bool = True
) -> None:
    """Raise `ProjectError` with all wrong values and records in the seeds' files.

    A file that passed is not read again until it or its contract changes; with `saves`,
    that is also known to later commands.
    """
    cache = CacheFile(manifest.outputs.cache / "seeds.json")
    zone, problems = manifest.target.spark.time_zone, list[Problem]()
    for seed in map(manifest.seeds.__getitem__, names):
        version = seed.version(zone)
        if cache.get(seed.name, version) is None and not _check(
            manifest, seed, find_zone(zone), problems
        ):
            cache.put(seed.name, version, True)
    if saves:
        cache.save(manifest.seeds)
    if problems:
        raise ProjectError(problems)


def _check(
    manifest: Manifest, seed: Seed, zone: tzinfo, problems: list[Problem]
) -> bool:
    """Check all rows of a seed, and add what is wrong to `problems`; whether anything
    is."""
    count = len(problems)
    content = read_seed_content(
        manifest.directory / seed.path, seed.path, manifest.settings.seeds.max_size
    )
    text = decode_seed(content, seed.path)

    def read() -> None:
        for _ in read_rows(seed, text, zone):
            pass

    collect(problems, read)
    return len(problems) > count
