"""The settings of `[tool.lakesql.lint]` in pyproject.toml: which rules run, in all
files and in single folders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from lakesql.decode import Node, decode, option, read_each, read_entries
from lakesql.errors import ProjectError, did_you_mean
from lakesql.graph.manifest import Manifest
from lakesql.lint.all_rules import MODULES


def _read_code(node: Node) -> str:
    if isinstance(node.value, str) and node.value in MODULES:
        return node.value
    what = f"{node.shown} is not the code of a rule of `lakesql lint`."
    fix = did_you_mean(
        node.value.upper() if isinstance(node.value, str) else "", MODULES
    )
    raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)


def _read_codes(node: Node) -> tuple[str, ...]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    return read_each(items, _read_code)


def _read_folders(node: Node) -> Mapping[str, tuple[str, ...]]:
    return read_entries(node, lambda _, entry: _read_codes(entry))


@dataclass(frozen=True, slots=True)
class LintSettings:
    """Which rules `lakesql lint` runs. Findings of other rules are not shown."""

    select: tuple[str, ...] | None = option(
        "Codes of the only rules that are checked; all, if left out.",
        default=None,
        read=_read_codes,
    )
    ignore: tuple[str, ...] = option(
        "Codes of rules that are not checked.", default=(), read=_read_codes
    )
    ignore_in: Mapping[str, tuple[str, ...]] = option(
        "Codes of rules that are not checked in a folder or file, by its path from the project's folder.",
        factory=dict,
        read=_read_folders,
        is_hashed=False,
    )

    @property
    def enabled(self) -> frozenset[str]:
        """The codes of the rules that run in any file."""
        chosen = MODULES.keys() if self.select is None else self.select
        return frozenset(chosen) - {*self.ignore}

    def asks(self, path: str) -> frozenset[str]:
        """The codes of the rules that run in this file."""
        file = PurePosixPath(path)
        ignored = [
            codes
            for folder, codes in self.ignore_in.items()
            if file.is_relative_to(folder)
        ]
        return self.enabled.difference(*ignored)


def read_lint_settings(manifest: Manifest) -> LintSettings:
    """The lint settings of a project.

    Raises `ProjectError` with every unknown option, code and folder.
    """
    node = manifest.settings.lint
    settings = decode(node, LintSettings, what="[tool.lakesql.lint]")
    folders = node.get("ignore_in")
    problems = []
    for folder in settings.ignore_in:
        if folders is not None and not _is_there(folder, manifest.texts):
            problems.append(_no_such_folder(folder, folders, manifest.texts))
    if problems:
        raise ProjectError(
            [problem for error in problems for problem in error.problems]
        )
    return settings


def _is_there(folder: str, paths: Collection[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for path in paths)


def _no_such_folder(folder: str, node: Node, paths: Collection[str]) -> ProjectError:
    known = {
        str(parent)
        for path in paths
        for parent in (PurePosixPath(path), *PurePosixPath(path).parents)
    }
    what = f"No file of the project is '{folder}', or is in a folder of that name."
    return ProjectError.of(
        "unknown-folder",
        what,
        fix=did_you_mean(folder, known - {"."}),
        place=node.key_place(folder),
    )
