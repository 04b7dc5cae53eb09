"""How a command's options become the project on its target, and what is checked of it:
variables, models, tests."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.cli.options import Options, find_directory, find_outputs
from lakesql.cli.report import in_order, report_problem, say
from lakesql.errors import ProjectError, UsageError, did_you_mean
from lakesql.graph.known_project import KnownProject
from lakesql.graph.named_selectors import Selectors
from lakesql.graph.selector import SELECTOR
from lakesql.project.files import ProjectFiles, read_project
from lakesql.project.profiles import Target, load_target, resolve_paths
from lakesql.project.yaml import parse_yaml
from lakesql.run.manifest.load import Load, load_asked, load_known
from lakesql.secrets import PREFIX, find_secrets

if TYPE_CHECKING:
    from lakesql.compile.compiled import CompiledFiles
    from lakesql.graph.load_manifest import FindTables
    from lakesql.graph.manifest import Manifest


def load_project(options: Options, *, asks: bool = False) -> Manifest:
    """The project of the current directory, or of --project-dir, on the target that the
    options name.

    With `asks` the brokers are asked which tables the feeds of groups have now. Raises
    `LakesqlError` with all problems of the project, and what asking a broker raises.
    """
    overrides = read_vars(options.vars)
    directory = find_directory(options)
    with _without_collection():
        files = read_project(directory, find_outputs(options))
        target = load_target(
            files.settings.profile,
            options.target,
            profile_folders(options, directory),
            os.environ,
        )
        load = loader(files, target, overrides)
        manifest = load_asked(load) if asks else load_known(load)
        check_vars(manifest, overrides)
        return manifest


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspend garbage collection in the block. The objects that are made in it live
    until the process ends: the collector would scan them again and again, then and
    later."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def load_files_and_target(options: Options) -> tuple[ProjectFiles, Target]:
    """The project's files, without parsing them, and the target with absolute paths.

    Raises `LakesqlError`.
    """
    directory = find_directory(options)
    files = read_project(directory, find_outputs(options))
    target = load_target(
        files.settings.profile,
        options.target,
        profile_folders(options, directory),
        os.environ,
    )
    return files, resolve_paths(target, directory)


def show_warnings(manifest: Manifest, options: Options) -> None:
    """Show the project's warnings on stderr."""
    for problem in in_order(manifest.warnings):
        report_problem(problem, options, as_warning=True)


def load_files(
    files: ProjectFiles, target: Target, overrides: Mapping[str, Any]
) -> Manifest:
    """The manifest of these files. Unchanged files are taken from the cache."""
    return load_known(loader(files, target, overrides))


def loader(files: ProjectFiles, target: Target, overrides: Mapping[str, Any]) -> Load:
    """A function that loads these files as a project. Unchanged files are taken from
    the cache.

    If no file has changed, the manifest is read lazily: only the parts that somebody
    uses.
    """

    def read(find_tables: FindTables) -> Manifest:
        # only here: often nothing has changed, and this is not needed
        from lakesql.graph.load_manifest import load_manifest
        from lakesql.graph.parse_cache import FileCache

        cache = FileCache(files.outputs.cache / "files.json")
        with _without_collection():
            manifest = load_manifest(
                files,
                target,
                overrides,
                cache.read_declarations,
                cache.read_model,
                find_tables,
            )
            cache.save()
        return manifest

    def load(find_tables: FindTables) -> Manifest:
        project = KnownProject(
            files.outputs.cache / "project.json", files, target, overrides, os.environ
        )
        return project.find(lambda: read(find_tables)) or project.keep(
            read(find_tables)
        )

    return load


def write_manifest(manifest: Manifest, compiled: CompiledFiles) -> Path:
    """Write `manifest.json`, for other tools. Returns its path."""
    from lakesql.compile import manifest_file

    return manifest_file.write_manifest(
        manifest, compiled, read_schemas(manifest, manifest.directory)
    )


def read_schemas(manifest: Manifest, folder: Path) -> dict[str, str]:
    """The texts of the schema files that streams name, by path, as far as they exist
    below `folder`."""
    files = {path: folder / path for path in manifest.schema_paths}
    return {
        path: file.read_text("utf-8", errors="replace")
        for path, file in files.items()
        if file.is_file()
    }


def profile_folders(options: Options, directory: Path) -> list[Path]:
    """The folders in which profiles.yml is searched for, in this order."""
    if options.profiles_dir is not None:
        return [options.profiles_dir.absolute()]
    return [directory, Path.home() / ".lakesql"]


def read_vars(text: str) -> Mapping[str, Any]:
    """The mapping given by `--vars`, as YAML or JSON. Raises `UsageError` (`bad-vars`,
    `secret-in-vars`)."""
    if find_secrets(os.environ).are_in(text):
        raise UsageError.of(
            "secret-in-vars",
            f"--vars holds the value of a variable whose name starts with {PREFIX}.",
            why="A model's vars stand in its compiled SQL, for everybody to read.",
        )
    try:
        return {
            name: node.plain()
            for name, node in parse_yaml("--vars", text).entries().items()
        }
    except ProjectError as error:
        what = f"The value of --vars is not a mapping: {error.problems[0].what}"
        raise UsageError.of("bad-vars", what) from None


def check_vars(manifest: Manifest, overrides: Mapping[str, Any]) -> None:
    """Raise `UsageError` (`bad-vars`) if --vars has a variable that the project neither
    sets nor reads."""
    unset = overrides.keys() - manifest.settings.vars.entries().keys()
    if not unset:
        return
    # only here: few commands are given variables
    from lakesql.lint.templates_read import templates_read

    read = {name for template in templates_read(manifest) for name in template.vars}
    for name in sorted(unset - read):
        what = f"--vars sets '{name}', and nothing in the project reads a variable of that name."
        raise UsageError.of(
            "bad-vars",
            what,
            fix=did_you_mean(name, {*read, *manifest.settings.vars.entries()}),
        )


def check_model(manifest: Manifest, name: str) -> None:
    """Raise `UsageError` (`unknown-model`) if no model has this name."""
    if name not in manifest.models:
        raise UsageError.of(
            "unknown-model",
            f"There is no model '{name}'.",
            fix=did_you_mean(name, manifest.models),
        )


def said_words(
    selectors: Selectors, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[str, ...]:
    """The words of --select, with a `selector:` word for each value of --selector. If
    nothing is selected or excluded, the default selector is used, which is reported on
    stderr. Raises `UsageError` (`unknown-selector`)."""
    for name in options.selector:
        if not re.fullmatch(r"[\w.-]+", name):
            selectors.find(name)  # is none: it would be several words
    named = options.selector
    if not (words or exclude or named) and selectors.default:
        say(
            f"Nothing is selected: selector '{selectors.default}' is the default.",
            options,
        )
        named = (selectors.default,)
    return (*words, *(f"{SELECTOR}:{name}" for name in named))


def check_tests(manifest: Manifest, compiled: CompiledFiles) -> None:
    """Raise `ProjectError` with the problems of models and data tests, as far as their
    columns are known."""
    compiled.check(manifest.model_names)
    if manifest.data_tests:
        # only here: it reads SQL
        from lakesql.unit.data_test_query import check_data_tests

        check_data_tests(manifest, compiled)


def defer(manifest: Manifest, names: Collection[str], options: Options) -> Manifest:
    """The manifest for a command that runs the models `names`, with the tables that
    --defer substitutes for other models that they join.

    Unless --favor-state is given, the catalog is asked which tables exist. Raises
    `UsageError` (`usage`, `state-missing`, `state-outdated`, and what `defer_refs`
    raises), and what opening the catalog raises.
    """
    if not options.defer:
        if options.favor_state:
            raise UsageError.of(
                "usage",
                "--favor-state says how --defer chooses.",
                fix="Add --defer, or leave it out.",
            )
        return manifest
    if options.state is None:
        raise UsageError.of(
            "usage",
            "--defer needs --state DIR.",
            fix="Name the folder of the other target's manifest.",
        )
    from lakesql.catalog.tables import look_in
    from lakesql.run.manifest.defer import defer_refs
    from lakesql.run.manifest.former import read_state_tables

    state = read_state_tables(options.state)
    if options.favor_state:
        deferred = defer_refs(manifest, names, state, None)
    else:
        deferred = defer_refs(manifest, names, state, look_in(manifest.target.catalog))
    for name, table in deferred.deferred.items():
        say(f"ref('{name}') reads {table}.", options)
    return deferred
