"""A project's files with changes that are not on the disk: with the unsaved texts of an
editor, or without some files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from lakesql.project.files import (
    PROPERTIES_SUFFIXES,
    SELECTORS_FILE,
    ProjectFiles,
    SourceFile,
)
from lakesql.project.settings import SETTINGS_FILE, Settings, parse_settings

SQL_SUFFIXES = (".sql",)
SCHEMA_SUFFIXES = (".avsc", ".proto")


def with_buffers(files: ProjectFiles, texts: Mapping[str, str]) -> ProjectFiles:
    """The files with these texts, by path, added or replacing those of the disk.

    Texts with paths outside of the project's folders are ignored, and so are those of
    seeds, whose rows are read from the disk where they are needed. Raises
    `ProjectError` if the text of the settings is not valid.
    """
    settings, settings_text = files.settings, files.settings_text
    if SETTINGS_FILE in texts and texts[SETTINGS_FILE] != settings_text:
        settings_text = texts[SETTINGS_FILE]
        settings = parse_settings(SETTINGS_FILE, settings_text)
    paths = settings.paths
    selectors = files.selectors
    if SELECTORS_FILE in texts:
        selectors = SourceFile(SELECTORS_FILE, texts[SELECTORS_FILE])
    return replace(
        files,
        settings=settings,
        settings_text=settings_text,
        models=_laid_over(files.models, texts, paths.models, SQL_SUFFIXES),
        streams=_laid_over(files.streams, texts, paths.streams, PROPERTIES_SUFFIXES),
        macros=_laid_over(files.macros, texts, paths.macros, SQL_SUFFIXES),
        properties=_laid_over(
            files.properties, texts, paths.models, PROPERTIES_SUFFIXES
        ),
        tests=_laid_over(files.tests, texts, paths.tests, SQL_SUFFIXES),
        contracts=_laid_over(files.contracts, texts, paths.seeds, PROPERTIES_SUFFIXES),
        schemas=_laid_over(files.schemas, texts, paths.streams, SCHEMA_SUFFIXES),
        selectors=selectors,
    )


def is_of_project(settings: Settings, path: str) -> bool:
    """Whether a file with this path, relative to the project's directory, is read as a
    part of the project."""
    paths = settings.paths
    folders = {
        paths.models: (*SQL_SUFFIXES, *PROPERTIES_SUFFIXES),
        paths.streams: (*PROPERTIES_SUFFIXES, *SCHEMA_SUFFIXES),
        paths.macros: SQL_SUFFIXES,
        paths.tests: SQL_SUFFIXES,
        paths.seeds: PROPERTIES_SUFFIXES,
    }
    is_in_folder = any(
        _belongs(path, folder, suffixes) for folder, suffixes in folders.items()
    )
    return is_in_folder or path in (SETTINGS_FILE, SELECTORS_FILE)


def without_files(files: ProjectFiles, paths: Collection[str]) -> ProjectFiles:
    """The files without those at these paths."""
    return replace(
        files,
        models=tuple(file for file in files.models if file.path not in paths),
        streams=tuple(file for file in files.streams if file.path not in paths),
        macros=tuple(file for file in files.macros if file.path not in paths),
        properties=tuple(file for file in files.properties if file.path not in paths),
        tests=tuple(file for file in files.tests if file.path not in paths),
        seeds=tuple(file for file in files.seeds if file.path not in paths),
        contracts=tuple(file for file in files.contracts if file.path not in paths),
        schemas=tuple(file for file in files.schemas if file.path not in paths),
        selectors=files.selectors
        if files.selectors and files.selectors.path not in paths
        else None,
    )


def _laid_over(
    found: tuple[SourceFile, ...],
    texts: Mapping[str, str],
    folder: str,
    suffixes: tuple[str, ...],
) -> tuple[SourceFile, ...]:
    """The files of a folder, with those of the texts that belong to it added or
    replaced."""
    mine = {
        path: text for path, text in texts.items() if _belongs(path, folder, suffixes)
    }
    if not mine:
        return found
    by_path = {file.path: file for file in found} | {
        path: SourceFile(path, text) for path, text in mine.items()
    }
    return tuple(by_path[path] for path in sorted(by_path))


def _belongs(path: str, folder: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file with this path is read as one of a folder: it has one of the
    suffixes, and neither it nor a folder of its path is hidden."""
    inside = PurePosixPath(path)
    if inside.suffix not in suffixes or not inside.is_relative_to(folder):
        return False
    return not any(part.startswith(".") for part in inside.relative_to(folder).parts)
