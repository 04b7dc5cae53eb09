"""The parser of `selectors.yml`: named selections, in dbt's YAML grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial

from lakesql.decode import Node, collect, decode, option, read_each, read_positive
from lakesql.errors import Place, Problem, ProjectError, UsageError, did_you_mean
from lakesql.graph.selector import (
    SELECTOR,
    Criterion,
    Expression,
    FindSelector,
    Intersection,
    NamedSelector,
    SetDifference,
    Union,
    is_glob,
    make_criterion,
    no_selectors,
    parse_words,
)
from lakesql.project.files import SourceFile
from lakesql.project.yaml import parse_yaml


@dataclass(frozen=True, slots=True)
class Selectors:
    """The selections of a project by name. `default` is the one that a command uses if
    it is given no selection; '' if that means all."""

    by_name: Mapping[str, Expression] = field(default_factory=dict)
    default: str = ""

    @property
    def find(self) -> FindSelector:
        """The function that returns the definition for a name, or the union of those
        that a glob matches. It raises `UsageError` (`unknown-selector`) if there is
        none."""
        return self._find if self.by_name else no_selectors

    def _find(self, name: str) -> Expression:
        if name in self.by_name:
            return self.by_name[name]
        if matching := _matching(name, self.by_name):
            return Union(tuple(self.by_name[each] for each in matching))
        fix = did_you_mean(name, self.by_name)
        raise UsageError.of(
            "unknown-selector",
            f"There is no selector '{name}' in selectors.yml.",
            fix=fix,
        )


def parse_selectors(file: SourceFile) -> Selectors:
    """The selections that the file defines.

    Raises `ProjectError` with all problems: `unknown-option`, `missing-option`,
    `wrong-type`, `wrong-value`, `bad-name`, `duplicate-name`, `bad-selector`,
    `unknown-selector`, `selector-cycle`.
    """
    root = decode(
        parse_yaml(file.path, file.text), _DefinitionFile, what="selectors.yml"
    )
    problems: list[Problem] = []
    named: dict[str, _Definition] = {}
    default: _Definition | None = None
    for node in root.selectors:
        entry = collect(problems, partial(_read_entry, node))
        if entry is None:
            continue
        if entry.name in named:
            what = (
                f"Selector '{entry.name}' stands at {named[entry.name].place} already."
            )
            problems.append(Problem("duplicate-name", what, place=entry.place))
        if entry.default and default is not None:
            what = f"Selector '{entry.name}' is the default, and '{default.name}' at {default.place} is too."
            problems.append(
                Problem(
                    "wrong-value",
                    what,
                    "",
                    "Let one of them be it.",
                    node.key_place("default"),
                )
            )
        named.setdefault(entry.name, entry)
        default = default or (entry if entry.default else None)
    reader = _DefinitionReader(named, are_all_known=not problems)
    found = {
        name: collect(problems, partial(reader.find, name, entry.place))
        for name, entry in named.items()
    }
    if problems:
        raise ProjectError(dict.fromkeys(problems))
    return Selectors(
        {name: it for name, it in found.items() if it is not None},
        default.name if default else "",
    )


def _matching(glob: str, names: Iterable[str]) -> list[str]:
    """The names that a glob matches; none if `glob` is a plain name."""
    return [name for name in names if fnmatchcase(name, glob)] if is_glob(glob) else []


@dataclass(frozen=True, slots=True)
class _DefinitionFile:
    selectors: tuple[Node, ...] = option(
        "The selectors.", read=lambda node: node.items()
    )


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def _read_name(node: Node) -> str:
    if isinstance(node.value, str) and _NAME.match(node.value):
        return node.value
    fix = "A selector's name is made of letters, digits, _, - and dots."
    raise ProjectError.of(
        "bad-name", f"{node.shown} is not a name.", fix=fix, place=node.place
    )


@dataclass(frozen=True, slots=True)
class _Definition:
    place: Place
    name: str = option("Name of the selector, for `--selector`.", read=_read_name)
    definition: Node = option(
        "Definition: what the selector selects.", read=lambda node: node
    )
    description: str = option("Description of the selector.", default="")
    default: bool = option(
        "Whether a command without a selection uses this selector.", default=False
    )


def _read_entry(node: Node) -> _Definition:
    return decode(
        node, _Definition, what="a selector", given={"place": node.key_place("name")}
    )


@dataclass(frozen=True, slots=True)
class _Method:
    method: str = option("Method of `--select`, such as `tag`.")
    value: str = option(
        "Value of the method, which `--select` has behind the colon.",
        read=lambda node: _text(node),
    )
    parents: bool = option(
        "Whether parents are selected too, as by a + before a word.", default=False
    )
    children: bool = option(
        "Whether children are selected too, as by a + behind a word.", default=False
    )
    parents_depth: int | None = option(
        "Number of generations of parents; all, if left out.",
        default=None,
        read=read_positive,
    )
    children_depth: int | None = option(
        "Number of generations of children; all, if left out.",
        default=None,
        read=read_positive,
    )
    childrens_parents: bool = option(
        "Whether children and all their parents are selected too, as by an @ before a word.",
        default=False,
    )
    exclude: tuple[Node, ...] = option(
        "What is excluded from this selection.",
        default=(),
        read=lambda node: node.items(),
    )


def _text(node: Node) -> str:
    match node.value:
        case bool():
            return str(node.value).lower()
        case str() | int() | float():
            return node.written if node.written is not None else str(node.value)
        case _:
            raise ProjectError.of(
                "wrong-type", f"{node.shown} is not a text.", place=node.place
            )


@dataclass(slots=True)
class _DefinitionReader:
    """Reads each definition once, however often others refer to it. `open` has the
    names whose definitions are being read, so that a cycle is found."""

    entries: Mapping[str, _Definition]
    are_all_known: bool
    done: dict[str, Expression] = field(default_factory=dict)
    failed: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def find(self, name: str, place: Place) -> Expression:
        """The expression that a name stands for, or the union for a glob of names.
        `place` is that of the reference."""
        if matching := _matching(name, self.entries):
            return Union(tuple(self.find(each, place) for each in matching))
        if name in self.done:
            return self.done[name]
        if name in self.failed:
            raise ProjectError(self.failed[name])
        if name in self.open:
            names = " -> ".join([*self.open[self.open.index(name) :], name])
            raise ProjectError.of(
                "selector-cycle",
                f"Selector '{name}' names itself: {names}.",
                place=place,
            )
        if name not in self.entries:
            fix = (
                did_you_mean(name, self.entries)
                if self.are_all_known
                else "Correct the other entries first."
            )
            raise ProjectError.of(
                "unknown-selector",
                f"There is no selector '{name}'.",
                fix=fix,
                place=place,
            )
        self.open.append(name)
        try:
            self.done[name] = self.read(self.entries[name].definition)
        except ProjectError as error:
            self.failed[name] = error.problems
            raise
        finally:
            self.open.pop()
        return self.done[name]

    def read(self, node: Node) -> Expression:
        """The expression of a definition: a text in the grammar of --select, a `union`
        or `intersection`, a mapping with `method` and `value`, or one method with its
        value."""
        if isinstance(node.value, str):
            return self._read_words(node, node.value)
        entries = node.entries()
        if lists := [key for key in ("union", "intersection") if key in entries]:
            if len(entries) > 1:
                what = f"{lists[0]} stands beside something else."
                fix = "Give the definition one key; what is left out is an item of the list: - exclude: […]"
                raise ProjectError.of(
                    "wrong-value", what, fix=fix, place=node.key_place(lists[0])
                )
            return self._read_list(entries[lists[0]], lists[0])
        if len(entries) == 1 and "method" not in entries:
            (key, value), *_ = entries.items()
            if key == "exclude":
                what, fix = (
                    "exclude alone selects nothing.",
                    "Put it into a union or an intersection.",
                )
                raise ProjectError.of(
                    "wrong-value", what, fix=fix, place=node.key_place(key)
                )
            return self._find_all(key, _text(value), node.key_place(key))
        return self._read_method(node)

    def _read_words(self, node: Node, text: str) -> Expression:
        def find(name: str) -> Expression:
            return self.find(name, node.place)

        try:
            return Union(parse_words(text, "a definition", find))
        except UsageError as error:
            raise ProjectError(
                replace(problem, place=node.place) for problem in error.problems
            ) from None

    def _read_list(self, node: Node, key: str) -> Expression:
        items = node.items()
        excluded = [
            it
            for it in items
            if isinstance(it.value, Mapping) and it.value.keys() == {"exclude"}
        ]
        if len(excluded) > 1:
            fix = "Put all of it into one list."
            raise ProjectError.of(
                "wrong-value",
                "exclude stands there twice.",
                fix=fix,
                place=excluded[1].place,
            )
        included = [it for it in items if it not in excluded]
        if not included:
            fix = "Name what is selected."
            raise ProjectError.of(
                "wrong-value", f"This {key} names nothing.", fix=fix, place=node.place
            )
        parts = read_each(included, self.read)
        all_of_it: Expression = (
            Union(parts) if key == "union" else Intersection("", parts)
        )
        if not excluded:
            return all_of_it
        return SetDifference(
            all_of_it,
            Union(read_each(excluded[0].entries()["exclude"].items(), self.read)),
        )

    def _read_method(self, node: Node) -> Expression:
        said = decode(node, _Method, what="a definition")
        found = self._find_all(said.method, said.value, node.key_place("method"))
        place = node.key_place("childrens_parents")
        if said.childrens_parents and (said.children or said.parents):
            what = "childrens_parents takes in what children and parents do."
            raise ProjectError.of(
                "wrong-value", what, fix="Leave those out.", place=place
            )
        for side, is_said in (("parents", said.parents), ("children", said.children)):
            if node.get(f"{side}_depth") is not None and not is_said:
                what, at = (
                    f"{side}_depth counts generations that are not asked for.",
                    node.key_place(f"{side}_depth"),
                )
                raise ProjectError.of(
                    "wrong-value", what, fix=f"Add {side}: true", place=at
                )
        operators = Criterion(
            SELECTOR,
            "",
            said.value,
            said.childrens_parents,
            said.parents_depth if said.parents else 0,
            said.children_depth if said.children else 0,
        )
        related = (
            NamedSelector(operators, found)
            if operators != Criterion(SELECTOR, "", said.value)
            else found
        )
        return (
            SetDifference(related, Union(read_each(said.exclude, self.read)))
            if said.exclude
            else related
        )

    def _find_all(self, prefix: str, value: str, place: Place) -> Expression:
        try:
            criterion = make_criterion(f"{prefix}:{value}", prefix, value)
        except UsageError as error:
            raise ProjectError(
                replace(problem, place=place) for problem in error.problems
            ) from None
        return self.find(value, place) if criterion.method == SELECTOR else criterion
