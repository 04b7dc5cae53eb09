"""How `lakesql plan` and `state:` selectors compare two versions of a project: its
files as they are now, and those of a commit or a manifest."""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakesql.cli.options import Options, find_directory, find_outputs
from lakesql.cli.project import (
    check_vars,
    profile_folders,
    read_schemas,
    read_vars,
    said_words,
)
from lakesql.compile.select import Select
from lakesql.decode import node_of
from lakesql.errors import LakesqlError, Place, Problem, ProjectError, UsageError
from lakesql.graph.graph import Graph
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.graph.named_selectors import Selectors, parse_selectors
from lakesql.graph.parse_cache import FileCache
from lakesql.graph.selector import Selection, asks_for, parse_selection, select_nodes
from lakesql.project.duration import parse_duration
from lakesql.project.files import ProjectFiles, read_project
from lakesql.project.profiles import (
    PROFILES_FILE,
    Target,
    find_output,
    load_target,
    resolve_paths,
)
from lakesql.review.compare import compare, refuse_all
from lakesql.review.states import find_states
from lakesql.review.verdicts import Review
from lakesql.review.version import LoadFiles, Version, read_version
from lakesql.run.manifest.former import Former, NamedTarget, open_commit, open_state
from lakesql.run.manifest.load import load_known
from lakesql.source.kinds import SOURCES


@dataclass(frozen=True, slots=True)
class ReviewedProject:
    """The review of the selected models. `target` is None if something other than
    models is wrong with the project; `unmatched` are the words of the selection that
    match nothing."""

    review: Review
    files: ProjectFiles
    target: Target | None = None
    unmatched: tuple[str, ...] = ()


def review_project(
    options: Options,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    is_live: bool = False,
) -> ReviewedProject:
    """The review of what has changed in the selected models.

    The options name the version to compare with: a commit, the folder of a manifest, or
    by default the main branch. With `is_live` the tables in the catalog, the
    checkpoints and the topics are read too, with the credentials of a run. Raises
    `UsageError` if there is nothing to compare with, and `LakesqlError` for errors of
    the target.
    """
    with _open_former(options) as former:
        files = read_project(find_directory(options), find_outputs(options))
        try:
            selectors = (
                parse_selectors(files.selectors)
                if files.selectors is not None
                else Selectors()
            )
            selection = parse_selection(
                said_words(selectors, select, exclude, options), exclude, selectors.find
            )
            for method in ("state", "result"):
                if asks_for(selection, method):
                    why, fix = (
                        "A plan has the models that are modified, whatever is selected.",
                        f"Leave {method}: out.",
                    )
                    raise UsageError.of(
                        "bad-selector",
                        f"A plan is not selected by {method}:.",
                        why=why,
                        fix=fix,
                    )
            compared = compare_with(options, former, files, selection)
        except ProjectError as error:
            return ReviewedProject(
                refuse_all(files, error.problems, former.called), files
            )
    review = with_live(options, compared) if is_live else compared.review
    return ReviewedProject(
        review, files, compared.new.manifest.target, compared.unmatched
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """Both versions, and the review of the change between them. `unmatched` are the
    words of a selection that match nothing."""

    old: Version | None
    new: Version
    review: Review
    unmatched: tuple[str, ...] = ()


def compare_now(options: Options, former: Former, names: Collection[str]) -> Compared:
    """The review of the models `names`, from the former version to the project's files
    as they are now. Raises what `compare_with` raises."""
    files = read_project(find_directory(options), find_outputs(options))
    return compare_with(options, former, files, names)


def compare_with(
    options: Options,
    former: Former,
    files: ProjectFiles,
    selected: Selection | Collection[str] | None = None,
) -> Compared:
    """The review of the change from the former version to `files`, for the selected
    models or all.

    Raises `ProjectError` if something other than models is wrong with the new version,
    and what `load_former` raises.
    """
    new = load_new(options, files)
    old = load_former(options, former, new)
    unmatched: tuple[str, ...] = ()
    seeds: Collection[str] = ()
    match selected:
        case None:
            versions = [
                version.manifest for version in (new, old) if version is not None
            ]
            names: Collection[str] = {name for each in versions for name in each.models}
            seeds = {name for each in versions for name in each.seeds}
        case Selection():
            names, seeds, unmatched = _select(selected, old, new)
        case _:
            names = selected
    # all objects made here are kept: garbage collection would scan them again and again
    # and free nothing
    gc.disable()
    try:
        return Compared(
            old, new, compare(old, new, names, former.called, seeds), unmatched
        )
    finally:
        gc.enable()


def with_live(options: Options, compared: Compared) -> Review:
    """The review, completed with the tables, checkpoints and topics as they are now,
    read with the credentials of a run.

    Topics that could not be read are reported on stderr.
    """
    # only here: without is_live, modules that read a catalog are not loaded
    from lakesql.cli.report import say
    from lakesql.review.tables_now import add_live
    from lakesql.run.streams.ask_sources import read_topics
    from lakesql.run.tell.live_tables import read_live

    review, old, new = compared.review, compared.old, compared.new
    folders = profile_folders(options, find_directory(options))
    target = load_target(
        new.files.settings.profile, options.target, folders, os.environ
    )
    compared_names = [it.name for it in (*review.models, *review.upstream)]
    names = [
        name
        for name in compared_names
        if name in new.manifest.models and name not in new.problems
    ]
    tables = {name: new.manifest.models[name].table for name in names}
    selects = [
        select for name in names if isinstance(select := new.select(name), Select)
    ]
    streams = {
        name: select.streams[name]
        for select in selects
        for name in select.query.streams_read
    }
    read = [
        stream
        for name, stream in streams.items()
        if reads_model(new.manifest, name) is None
    ]
    topics, unread = read_topics(target.connections, read)
    for sentence in unread:
        say(sentence, options)
    return add_live(
        review,
        old,
        new,
        read_live(resolve_paths(target, new.files.directory), tables),
        topics,
    )


def compared_states(options: Options) -> Mapping[str, frozenset[str]]:
    """The states of each node (the values of `state:`) by its id, compared with the
    version that the options name. Raises as `review_project` does, and `ProjectError`
    if something other than models is wrong."""
    with _open_former(options) as former:
        new = load_new(
            options, read_project(find_directory(options), find_outputs(options))
        )
        old = load_former(options, former, new)
        review = compare(old, new, list(new.manifest.models), former.called)
        return find_states(old, new, review)


def load_new(options: Options, files: ProjectFiles) -> Version:
    """The project as it is now. Its models are compiled, so that it is known which of
    them compile."""
    folders = profile_folders(options, find_directory(options))
    profile, environ = files.settings.profile, StandIns(os.environ)
    target = load_target(profile, options.target, folders, environ)
    place = find_output(profile, options.target, folders, environ)
    cache = FileCache(files.outputs.cache / "files.json")
    overrides = read_vars(options.vars)
    version = read_version(files, _loader(target, overrides, cache), place)
    if not version.problems:
        check_vars(version.manifest, overrides)
    cache.save()
    version = replace(version, schemas=read_schemas(version.manifest, files.directory))
    with suppress(ProjectError):  # each model says its own problems
        version.compiled().check(
            name for name in version.manifest.models if name not in version.problems
        )
    return version


def load_former(options: Options, former: Former, new: Version) -> Version | None:
    """The former version of the project, read by this version of lakesql; None if there
    was no project.

    Raises `UsageError` (`old-unreadable`) if something other than models is wrong with
    it.
    """
    if not former.has_project:
        return None
    directory = new.files.directory
    # unchanged files were parsed by `load_new`
    cache = FileCache(new.files.outputs.cache / "files.json")
    try:
        files = read_project(former.folder)
        seeds = tuple(
            replace(it, digest=former.seeds.get(it.path, it.digest))
            for it in files.seeds
        )
        files = replace(
            files,
            directory=directory,
            outputs=new.files.outputs,
            selectors=None,
            seeds=seeds,
        )
        target = _former_target(options, former, files, new)
        version = read_version(files, _loader(target, read_vars(options.vars), cache))
    except LakesqlError as error:
        raise UsageError(
            _unreadable(former, problem) for problem in error.problems
        ) from None
    return replace(version, schemas=read_schemas(version.manifest, former.folder))


def _unreadable(former: Former, problem: Problem) -> Problem:
    where = f" at {problem.place}" if problem.place else ""
    what = f"The project as it was in {former.called} cannot be read ({problem.condition}{where}): {problem.what}"
    return Problem("old-unreadable", what)


@contextmanager
def _open_former(options: Options) -> Iterator[Former]:
    ref, state = options.against, options.state
    if ref is not None and state is not None:
        raise UsageError.of(
            "usage",
            "--against and --state both say what is compared with.",
            fix="Leave out one.",
        )
    opened = (
        open_commit(find_directory(options), ref)
        if state is None
        else open_state(state)
    )
    with opened as former:
        yield former


def _former_target(
    options: Options, former: Former, files: ProjectFiles, new: Version
) -> Target:
    """The target in the former version; the present one if profiles.yml is not kept in
    the project.

    A manifest has only the names of its target's catalog, namespace and connections;
    their addresses and options are taken from the present target.
    """
    if former.target is not None:
        return _named_target(former.target, new.manifest.target)
    folders = profile_folders(options, find_directory(options))
    if options.profiles_dir is None and (former.folder / PROFILES_FILE).is_file():
        folders = [former.folder]
    return load_target(
        files.settings.profile, options.target, folders, StandIns(os.environ)
    )


def _named_target(named: NamedTarget, now: Target) -> Target:
    place, known = Place(PROFILES_FILE), now.connections
    connections = {
        name: it
        if (it := known.get(name)) is not None and it.kind == word
        else SOURCES[word].stand_in()
        for name, word in named.connections.items()
    }
    return replace(
        now,
        name=named.name,
        namespace=named.namespace,
        catalog=replace(now.catalog, name=named.catalog),
        trigger=parse_duration(node_of(named.trigger, place)),
        maintenance=node_of(named.maintenance, place)
        if named.maintenance is not None
        else None,
        connections=connections,
    )


def _loader(
    target: Target, overrides: Mapping[str, Any], cache: FileCache
) -> LoadFiles:
    def load(files: ProjectFiles) -> Manifest:
        return load_known(
            partial(
                load_manifest,
                files,
                target,
                overrides,
                cache.read_declarations,
                cache.read_model,
            )
        )

    return load


def _select(
    selection: Selection, old: Version | None, new: Version
) -> tuple[Collection[str], Collection[str], tuple[str, ...]]:
    """The names of the selected models and seeds, including those that only the old
    version has, and the words that match nothing in either version."""
    graphs: list[Graph] = [
        version.manifest.graph for version in (new, old) if version is not None
    ]
    selected = [select_nodes(selection, graph) for graph in graphs]
    ids = {it for found in selected for it in found.ids}
    unmatched = [
        word
        for word in selected[0].unmatched
        if all(word in found.unmatched for found in selected)
    ]
    models, seeds = (
        sorted(it.removeprefix(kind) for it in ids if it.startswith(kind))
        for kind in ("model.", "seed.")
    )
    return models, seeds, tuple(unmatched)


class StandIns(dict[str, str]):
    """The environment, in which a variable that is not set has a placeholder with its
    name as its value.

    Comparing needs no secret, and both versions are read with the same values.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """The variable's value; if it is not set, the default; without a default, the
        placeholder."""
        return super().get(key, f"${{{key}}}" if default is None else default)
