"""The comparison of two versions of a project, model by model: how severe each change
is, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_text
from lakesql.errors import Place, Problem, RunError
from lakesql.graph.graph import node_id
from lakesql.plan.steps import plan_table
from lakesql.project.catalog import is_same_catalog
from lakesql.project.files import ProjectFiles
from lakesql.review.branch_changes import find_branch_changes
from lakesql.review.causes import ModelVersions
from lakesql.review.continuation import find_refusals, is_refusal
from lakesql.review.day_changes import find_day_change
from lakesql.review.option_changes import find_option_changes, resolved, sql_settings
from lakesql.review.order_changes import find_order_changes
from lakesql.review.query_changes import find_contract_changes, find_query_changes
from lakesql.review.readers import ReadersOf
from lakesql.review.rebuilds import follow_rebuilds, upstream_of
from lakesql.review.refresh_changes import has_refreshes, review_refreshed
from lakesql.review.renames import find_renames, judge_rename
from lakesql.review.seed_changes import review_seeds
from lakesql.review.table_changes import created_spec, find_table_changes
from lakesql.review.verdicts import (
    ModelReview,
    Reason,
    Review,
    Statements,
    hardest_first,
    models_in_order,
    worst,
)
from lakesql.review.version import Version, model_name


def compare(
    old: Version | None,
    new: Version,
    names: Collection[str],
    against: str,
    seeds: Collection[str] = (),
) -> Review:
    """The review of the change from `old` to `new`, for the models `names` and the
    `seeds`, each of which one of the versions may lack. `old` is None if there was no
    project.

    `against` describes `old` to people.
    """
    renamed = find_renames(old, new) if old is not None else {}
    gone = set(renamed.values())
    unchanged = find_unchanged(old, new) if old is not None else frozenset()
    reviews = {
        name: ModelReview(name)
        if name in unchanged
        else _review(old, new, name, renamed)
        for name in {*names, *upstream_of(new, names)}
        if name not in gone or name in new.manifest.models
    }
    if old is not None:
        reviews = follow_rebuilds(new, reviews)
    shown = set(names) & reviews.keys()
    readers = ReadersOf(new, old)
    for name in shown:
        if (columns := reviews[name].columns).names:
            reviews[name] = replace(
                reviews[name], downstream=readers.find(name, columns)
            )
    found, upstream = (
        [it for it in reviews.values() if (it.name in shown) is is_shown]
        for is_shown in (True, False)
    )
    found += review_seeds(old, new, sorted(seeds), readers)
    return Review(against, models_in_order(found), models_in_order(upstream))


def refuse_all(
    files: ProjectFiles, problems: Iterable[Problem], against: str
) -> Review:
    """The review of a project in which nothing can run, because something other than a
    model is wrong with it: every model is refused."""
    reasons = tuple(
        Reason("refused", it.condition, it.what, it.place, it.fix) for it in problems
    )
    names = sorted(model_name(file) for file in files.models)
    return Review(against, tuple(ModelReview(name, reasons) for name in names))


def _review(
    old: Version | None, new: Version, name: str, renamed: Mapping[str, str]
) -> ModelReview:
    if name not in new.manifest.models:
        assert old is not None
        return _review_removed(old, name)
    after = new.select(name)
    if not isinstance(after, Select):
        return ModelReview(
            name,
            tuple(_refused(new, name, after)),
            statements=Statements(_text(old, name), None),
        )
    if name in renamed:
        assert old is not None
        return judge_rename(old, new, renamed[name], name)
    if old is None or name not in old.manifest.models:
        return _review_added(after)
    before = old.select(name)
    if not isinstance(before, Select):
        return ModelReview(
            name,
            (_not_compared(after, before),),
            statements=Statements(None, compiled_text(after)),
        )
    return _review_both(ModelVersions(old, new, before, after, renamed))


def _review_both(change: ModelVersions) -> ModelReview:
    if has_refreshes(change.before, change.after):
        return review_refreshed(change)
    table, refusals = find_table_changes(change), tuple(find_refusals(change))
    reasons = hardest_first(
        (
            *refusals,
            *table.reasons,
            *find_query_changes(change),
            *find_order_changes(change),
            *find_branch_changes(change),
            *find_contract_changes(change, table.columns.names),
            *find_option_changes(change),
        )
    )
    texts = Statements(
        change.old.compiled_text(change.before), change.new.compiled_text(change.after)
    )
    # a run that refuses alters nothing
    steps = () if any(map(is_refusal, refusals)) else table.steps
    day = (
        None
        if worst(it.verdict for it in reasons) == "refused"
        else find_day_change(change)
    )
    return ModelReview(change.model.name, reasons, table.columns, texts, steps, day=day)


def _review_added(after: Select) -> ModelReview:
    model, statements = after.model, Statements(None, compiled_text(after))
    added = Reason(
        "added",
        "model-added",
        _say_made(after),
        model.place,
        f"lakesql run --select {model.name}",
    )
    if not model.config.is_stored:
        return ModelReview(model.name, (added,), statements=statements)
    policy, spec = model.config.on_schema_change, created_spec(after)
    try:
        steps = plan_table(model.name, spec, policy, None, frozenset(), after.compared)
    except RunError as error:
        refused = (
            Reason("refused", it.condition, it.what, it.place or model.place, it.fix)
            for it in error.problems
        )
        return ModelReview(model.name, (added, *refused), statements=statements)
    return ModelReview(model.name, (added,), statements=statements, steps=steps)


def _say_made(after: Select) -> str:
    """The sentence on what the first run of a model creates."""
    table = after.model.table
    if not after.model.config.is_stored:
        return f"View {table} is made."
    if has_refreshes(after):
        return f"Table {table} is made, with the rows of its SELECT."
    return f"Table {table} is made, and its streams are read from their `start`."


def _review_removed(old: Version, name: str) -> ModelReview:
    model = old.manifest.models[name]
    what = f"Table {model.table} stays as it is, with its checkpoint, and is kept fresh no longer."
    if not model.config.is_stored:
        what = f"View {model.table} stays as it is."
    do = f"To remove them: lakesql drop {name}"
    reason = Reason("removed", "model-removed", what, Place(model.path), do)
    return ModelReview(name, (reason,), statements=Statements(_text(old, name), None))


def _refused(new: Version, name: str, problems: Iterable[Problem]) -> Iterator[Reason]:
    own = new.manifest.models[name].path
    for problem in problems:
        place = problem.place or Place(own)
        is_own = place.path == own or not any(
            place.path == model.path for model in new.manifest.models.values()
        )
        if is_own:
            yield Reason("refused", problem.condition, problem.what, place, problem.fix)
        else:
            what = f"It reads a model that is refused ({problem.condition}): {problem.what}"
            yield Reason("refused", "upstream-refused", what, place, problem.fix)


def _not_compared(after: Select, problems: tuple[Problem, ...]) -> Reason:
    said = "; ".join(
        f"{it.condition}{f' at {it.place}' if it.place else ''}: {it.what}"
        for it in problems
    )
    what = f"Nothing is known of the old version, which this version of lakesql cannot read ({said})."
    do = f"If the table has rows, compare them with a rebuild: lakesql rebuild {after.model.name} --dry-run"
    return Reason("breaks", "not-compared", what, after.model.place, do)


def _text(version: Version | None, name: str) -> str | None:
    if version is None or name not in version.manifest.models:
        return None
    select = version.select(name)
    return compiled_text(select) if isinstance(select, Select) else None


def find_unchanged(old: Version, new: Version) -> frozenset[str]:
    """The models that are known to compile, and that are made from the same inputs in
    both versions: SQL, properties and connections."""
    olds, news = old.compiled(), new.compiled()
    targets = old.manifest.target, new.manifest.target
    places = [
        (it.checkpoints, it.catalog.warehouse, sql_settings(it)) for it in targets
    ]
    is_elsewhere = places[0] != places[1] or not is_same_catalog(
        targets[0].catalog, targets[1].catalog
    )
    if is_elsewhere or old.schemas != new.schemas:
        return frozenset()
    graph = new.manifest.graph
    wrong = graph.downstream(node_id("model", name) for name in new.problems)
    return frozenset(
        name
        for name, model in new.manifest.models.items()
        if (former := old.manifest.models.get(name)) is not None
        and name not in new.problems
        and name not in old.problems
        and node_id("model", name) not in wrong
        and news.known(name) is not None
        and olds.key(name) == news.key(name)
        and resolved(replace(former.properties, place=model.properties.place))
        == resolved(model.properties)
        and _connections(old, name) == _connections(new, name)
    )


def _connections(version: Version, name: str) -> list[object]:
    manifest = version.manifest
    read = [manifest.streams.get(it.name) for it in manifest.models[name].facts.streams]
    return [
        manifest.target.connections.get(stream.connection)
        for stream in read
        if stream is not None
    ]
