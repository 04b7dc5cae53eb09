"""How the table of a SELECT over tables is kept equal to it: by difference, by key or
in full, with the statements for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot.tokenizer_core import TokenType

from lakesql.identifiers import identifier
from lakesql.names import RefreshChoice
from lakesql.select.sqltext import Findings, findings_by_offset
from lakesql.views.changed_rows import ROW, ChangedRows
from lakesql.views.difference import (
    Difference,
    HiddenColumn,
    difference_of,
    with_hidden,
)
from lakesql.views.read_view import ViewText, read_tree, read_view
from lakesql.views.signed_rows import linear_obstacles
from lakesql.views.steadiness import (
    is_random,
    ordered_aggregates,
    random_calls,
    timed_tokens,
)
from lakesql.views.units import (
    inputs_read,
    is_whole,
    keys_of,
    origins_of,
    passed_on,
    unit_of,
)
from lakesql.views.view_tree import (
    CannotKeepError,
    InnerQuery,
    ViewBlock,
    ViewInput,
    ViewQuery,
    ViewSet,
)

Way = Literal["difference", "key", "full"]
TOUCHED = "_lakesql_touched"
"""The view of the units that a refresh computes anew."""


LONGEST = 100_000
"""The most characters of a statement that finds what a change reaches. A longer one
takes longer to plan than the SELECT takes to run; each level of nested queries makes it
grow."""

TOO_LONG = (
    f"it takes a statement of more than {LONGEST:,} characters to find what has changed"
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why it is not known which rows a change reaches, and the offset in the text of
    what causes it."""

    reason: str
    offset: int


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """What is wrong with the keys of a view.

    `keys-needed`: none are given and none follow from the SELECT. `not-an-output`: a
    key is no column of it. `key-twice`: a key is given twice, or is the name of two
    columns. `not-the-group`: an aggregate has other keys than its GROUP BY.
    `random-key`: a key has another value each time.
    """

    kind: Literal[
        "keys-needed", "not-an-output", "key-twice", "not-the-group", "random-key"
    ]
    what: str
    offset: int


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a view is kept: the `way`, and what is needed for its statements.

    `reason` says why it is not kept in a cheaper way, and `offset` where in the text
    the cause is ('' and 0 where there is none).
    `keys` identify the rows. `keys_follow`: the SELECT itself guarantees that no two
    rows have the same keys.
    `unit` are the outputs whose values rows have in common that are computed anew
    together.
    `in_full` are the inputs, by number, whose change requires the whole SELECT;
    `by_key` are those whose change is handled by key, though that of others is handled
    by difference.
    `is_timed`: its rows change with time, even if no input does.
    `query` is the SELECT over the inputs as they are now, with the additional columns
    of the table (`hidden`).
    `origins` are, by output of the unit, the input columns that the output equals: to
    compute the rows with some values of the unit, only the rows of that input with
    these values are needed.
    """

    way: Way
    reason: str = ""
    offset: int = 0
    keys: tuple[str, ...] = ()
    keys_follow: bool = False
    unit: tuple[str, ...] = ()
    query: str = ""
    in_full: Mapping[int, Obstacle] = field(default_factory=dict)
    by_key: Mapping[int, Obstacle] = field(default_factory=dict)
    origins: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    is_timed: bool = False
    problems: tuple[KeyProblem, ...] = ()
    difference: Difference | None = None
    _view: ViewText | None = field(default=None, repr=False, compare=False)
    _tree: ViewQuery | None = field(default=None, repr=False, compare=False)

    def way_for(self, changed: Collection[int]) -> Way:
        """The way in which the view is kept if these inputs have changed."""
        if self.way == "full" or not self.in_full.keys().isdisjoint(changed):
            return "full"
        is_by_difference = self.way == "difference" and self.by_key.keys().isdisjoint(
            changed
        )
        found = self.delta(changed) if is_by_difference else self.touched(changed)
        if len(found) > LONGEST:
            return "full"
        return "difference" if is_by_difference else "key"

    def why_full(self, changed: Collection[int]) -> str:
        """Why all rows are computed if these inputs have changed. Only to be called if
        they are."""
        if self.way == "full":
            return self.reason
        blocked = [number for number in changed if number in self.in_full]
        return self.in_full[blocked[0]].reason if blocked else TOO_LONG

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the inputs, each as often as the SELECT reads it; empty if its
        form cannot be kept by what has changed."""
        return () if self._tree is None else tuple(inputs_read(self._tree))

    @property
    def reads_one(self) -> bool:
        """Whether the SELECT reads a single table, in one place and without a join."""
        return len(self.reads) == 1

    @property
    def unit_is_unique(self) -> bool:
        """Whether each unit has at most one row."""
        return set(map(str.lower, self.keys)) <= set(map(str.lower, self.unit))

    @property
    def hidden(self) -> tuple[HiddenColumn, ...]:
        """The additional columns of the table, which follow those of the SELECT."""
        return () if self.difference is None else self.difference.hidden

    def delta(self, changed: Collection[int]) -> str:
        """The SELECT of the view `_lakesql_delta`: what a change of these inputs adds
        to each group and subtracts from it."""
        assert self._view is not None and self.difference is not None, (
            "it is kept by difference"
        )
        return self.difference.delta(self._view, changed)

    def touched(self, changed: Collection[int]) -> str:
        """A SELECT of the distinct units that a change of these inputs can reach."""
        assert self._view is not None and self._tree is not None, (
            "there is none of a view that is kept in full"
        )
        return ChangedRows(self._view, frozenset(changed)).touched(
            self._tree, self.unit
        )

    @property
    def touched_rows(self) -> str:
        """The SELECT of the view's rows whose unit is in the view
        `_lakesql_touched`."""
        same = " AND ".join(
            f"{ROW}.{identifier(name)} <=> {TOUCHED}.{identifier(name)}"
            for name in self.unit
        )
        return f"SELECT {ROW}.*\nFROM (\n{self.query}\n) AS {ROW}\nLEFT SEMI JOIN {TOUCHED}\n  ON {same or 'true'}"


def plan_view(
    text: str,
    inputs: Sequence[ViewInput],
    keys: Sequence[str] = (),
    refresh: RefreshChoice = "",
    findings: Findings | None = None,
) -> ViewPlan:
    """How the table of a SELECT is kept. Raises `ProjectError` if the text cannot be
    parsed.

    `keys` are those of the configuration; without them they follow from the SELECT.
    `refresh='full'` computes the whole SELECT each time.
    """
    view, parsed = read_view(text, inputs, findings or findings_by_offset())
    is_timed = next(timed_tokens(view.text), None) is not None
    try:
        tree = read_tree(view, parsed)
    except CannotKeepError as error:
        return _in_full(view, error, keys, is_timed)
    own, problems = _keys(view, tree, keys)
    follow = keys_of(tree)
    plain = ViewPlan(
        "full",
        keys=own,
        keys_follow=follow is not None
        and set(map(str.lower, follow)) <= set(map(str.lower, own)),
        query=ChangedRows(view, frozenset()).whole(tree.span, "new"),
        is_timed=is_timed,
        problems=problems,
        _view=view,
        _tree=tree,
    )
    unsteady = next(_unsteady(view), None)
    if unsteady is not None:
        return replace(plain, reason=unsteady.reason, offset=unsteady.offset)
    if refresh == "full" or problems or not tree.reads:
        return plain
    by_key = _by_key(view, tree, plain)
    return _by_difference(view, passed_on(tree), by_key)


def _by_key(view: ViewText, tree: ViewQuery, plain: ViewPlan) -> ViewPlan:
    """The plan of a view that is kept by key, or in full if it cannot be."""
    try:
        core = passed_on(tree)
        if isinstance(core, ViewBlock) and is_whole(core):
            raise CannotKeepError(
                "an aggregate without GROUP BY has one row, of all rows", core.mark
            )
        unit = unit_of(tree)
        unit = plain.keys if unit is None else unit
        if not unit:
            raise CannotKeepError("nothing tells its rows apart", tree.span[0])
    except CannotKeepError as error:
        obstacle = _obstacle(view, error)
        return replace(plain, reason=obstacle.reason, offset=obstacle.offset)
    in_full = dict(_obstacles(view, tree))
    if isinstance(tree, ViewSet):
        in_full |= _unnamed_branches(view, tree)
    first = in_full[min(in_full)] if in_full else Obstacle("", 0)
    way: Way = "full" if tree.reads <= in_full.keys() else "key"
    origins = {
        name: tuple(found) for name in unit if (found := list(origins_of(tree, name)))
    }
    plan = replace(plain, way=way, unit=unit, in_full=in_full, origins=origins)
    return replace(plan, reason=first.reason, offset=first.offset)


def _by_difference(view: ViewText, tree: ViewQuery, by_key: ViewPlan) -> ViewPlan:
    """The plan of a view that is kept by difference; if it cannot be, the plan
    `by_key`, with the reason."""
    try:
        difference = difference_of(view, tree)
    except CannotKeepError as error:
        obstacle = _obstacle(view, error)
        return (
            by_key
            if by_key.reason
            else replace(by_key, reason=obstacle.reason, offset=obstacle.offset)
        )
    blocked: dict[int, Obstacle] = {}
    for number, reason, token in linear_obstacles(difference.block):
        blocked.setdefault(number, Obstacle(reason, view.text.tokens[token].start))
    in_full = (
        {**blocked, **dict(_obstacles(view, tree))}
        if difference.is_whole
        else dict(by_key.in_full)
    )
    if tree.reads <= blocked.keys() | in_full.keys():
        first = (
            blocked[min(blocked)] if blocked else Obstacle(by_key.reason, by_key.offset)
        )
        return (
            by_key
            if by_key.reason
            else replace(by_key, reason=first.reason, offset=first.offset)
        )
    only_key = {number: one for number, one in blocked.items() if number not in in_full}
    first = next(iter({**only_key, **in_full}.values()), Obstacle("", 0))
    return replace(
        by_key,
        way="difference",
        reason=first.reason,
        offset=first.offset,
        query=with_hidden(view, ChangedRows(view, frozenset()), difference),
        in_full=in_full,
        by_key=only_key,
        difference=difference,
    )


def _in_full(
    view: ViewText, error: CannotKeepError, keys: Sequence[str], is_timed: bool
) -> ViewPlan:
    """The plan of a SELECT whose form cannot be kept by what has changed."""
    obstacle = _obstacle(view, error)
    query = ChangedRows(view, frozenset()).whole((0, len(view.text.tokens)), "new")
    return ViewPlan(
        "full",
        obstacle.reason,
        obstacle.offset,
        tuple(keys),
        query=query,
        is_timed=is_timed,
    )


def _obstacle(view: ViewText, error: CannotKeepError) -> Obstacle:
    return Obstacle(
        error.reason,
        view.text.tokens[min(error.token, len(view.text.tokens) - 1)].start,
    )


def _unsteady(view: ViewText) -> Iterator[Obstacle]:
    """What makes the SELECT return other rows when it runs again over the same
    inputs."""
    tokens = view.text.tokens
    for at in timed_tokens(view.text):
        is_text = tokens[at].token_type is TokenType.STRING
        what = f"'{tokens[at].text}'" if is_text else f"{tokens[at].text}()"
        yield Obstacle(f"{what} changes with time", tokens[at].start)
    for at in random_calls(view.text):
        yield Obstacle(
            f"{tokens[at].text}() gives another value each time", tokens[at].start
        )
    for at in ordered_aggregates(view.text):
        yield Obstacle(
            f"{tokens[at].text}() depends on the order of rows", tokens[at].start
        )


# --- keys


def _keys(
    view: ViewText, tree: ViewQuery, given: Sequence[str]
) -> tuple[tuple[str, ...], tuple[KeyProblem, ...]]:
    """The keys of a view, those `given` or else those that follow from the SELECT, and
    the problems with them."""
    start = view.text.tokens[tree.span[0]].start
    follow = keys_of(tree)
    if not given and follow is None:
        return (), (
            KeyProblem("keys-needed", "nothing says what tells its rows apart", start),
        )
    keys = tuple(given or follow or ())
    problems = [*_key_problems(tree, keys, start)]
    if given and follow is not None:
        problems += _group_problems(tree, keys, follow, start)
    return keys, tuple(dict.fromkeys(problems))


def _key_problems(
    tree: ViewQuery, keys: tuple[str, ...], start: int
) -> Iterator[KeyProblem]:
    """The problems of keys that are not exactly one column of the view each, or have
    another value each time."""
    folded = [key.lower() for key in keys]
    outputs = [column.name.lower() for column in tree.outputs.columns]
    for key, name in zip(keys, folded, strict=True):
        column = tree.outputs.find(key)
        if folded.count(name) > 1 or outputs.count(name) > 1:
            yield KeyProblem("key-twice", f"'{key}' stands twice", start)
        elif name not in outputs and not tree.outputs.is_open:
            yield KeyProblem("not-an-output", f"'{key}' is none of its columns", start)
        elif column is not None and is_random(column.expression):
            yield KeyProblem("random-key", f"'{key}' is another each time", start)


def _group_problems(
    tree: ViewQuery, keys: tuple[str, ...], follow: Sequence[str], start: int
) -> Iterator[KeyProblem]:
    """The problem of given keys of an aggregate that are not those of its GROUP BY."""
    if not isinstance(tree, ViewBlock) or not tree.is_grouped or tree.has_windows:
        return
    if {name.lower() for name in follow} != {key.lower() for key in keys}:
        what = f"the keys are {', '.join(keys)}, and its GROUP BY makes {', '.join(follow) or 'one row'}"
        yield KeyProblem("not-the-group", what, start)


# --- inputs whose change reaches every row


def _obstacles(view: ViewText, query: ViewQuery) -> Iterator[tuple[int, Obstacle]]:
    """The inputs of which a change may reach any row of the query, each with the
    reason."""
    if isinstance(query, ViewSet):
        for branch in query.branches:
            yield from _obstacles(view, branch)
        return
    for item in query.items:
        if item.query is not None:
            yield from _obstacles(view, item.query)
            yield from _of_unit(view, item.query)
    for inner in query.inner:
        yield from _obstacles(view, inner.query)
        if reason := _reaches_all(view, inner):
            offset = view.text.tokens[inner.offset_token].start
            yield from (
                (number, Obstacle(reason, offset))
                for number in sorted(inner.query.reads)
            )


def _of_unit(view: ViewText, query: ViewQuery) -> Iterator[tuple[int, Obstacle]]:
    """All inputs of a query with the reason, if its outputs do not show which of its
    rows a change reaches; else none."""
    try:
        unit = unit_of(query)
        if unit == ():
            raise CannotKeepError(
                "an aggregate in FROM whose GROUP BY is none of its outputs",
                query.span[0],
            )
        if isinstance(query, ViewSet):
            yield from _unnamed_branches(view, query).items()
    except CannotKeepError as error:
        obstacle = _obstacle(view, error)
        yield from ((number, obstacle) for number in sorted(query.reads))


def _unnamed_branches(view: ViewText, query: ViewSet) -> dict[int, Obstacle]:
    """The inputs of those queries of a set operation whose columns cannot be matched by
    position, as a star stands for unknown ones, or whose own unit is not known; each
    with the reason."""
    found: dict[int, Obstacle] = {}
    for branch in query.branches:
        found |= dict(_of_unit(view, branch))
        if branch.outputs.names is None or len(branch.outputs.names) != len(
            query.outputs.names or ()
        ):
            obstacle = Obstacle(
                "a star stands for columns that are not known",
                view.text.tokens[branch.span[0]].start,
            )
            found |= dict.fromkeys(branch.reads, obstacle)
    return found


def _reaches_all(view: ViewText, inner: InnerQuery) -> str:
    """Why a change of what a query inside an expression reads may reach any row; '' if
    it reaches only some."""
    if inner.place not in ("where", "select"):
        return "a query in this place is compared with every row"
    if inner.form == "in":
        if inner.left is None:
            return "a query behind IN whose left side is no column"
        width = inner.query.outputs.names
        if width is None or (len(width) != 1 and not inner.is_positive):
            return "a query behind NOT IN with more than one column"
        is_taken_apart = next(_of_unit(view, inner.query), None) is not None
        unit = None if is_taken_apart else unit_of(inner.query)
        if is_taken_apart or (unit is not None and inner.is_correlated):
            return "a query behind IN that groups"
        return ""
    if not inner.is_correlated:
        return "a query in an expression that is the same for every row"
    return ""
