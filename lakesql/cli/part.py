"""The project of a command; if it has errors, the part that can be read."""

from __future__ import annotations

from lakesql.cli.options import Options
from lakesql.cli.project import check_vars, load_files, load_files_and_target, read_vars
from lakesql.run.manifest.part import ProjectPart, read_part


def load_part(options: Options) -> ProjectPart:
    """The project, or the largest part of it that can be read file by file.

    Raises `LakesqlError` if its files or its target cannot be read at all.
    """
    files, target = load_files_and_target(options)
    overrides = read_vars(options.vars)
    found = read_part(files, lambda part: load_files(part, target, overrides))
    if found.manifest is not None and not found.problems:
        check_vars(found.manifest, overrides)
    return found
