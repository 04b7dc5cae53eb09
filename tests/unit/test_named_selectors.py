from __future__ import annotations

import pytest

from lakesql.errors import Place, ProjectError, UsageError
from lakesql.graph.graph import Graph, GraphNode, ResourceType, build_graph, node_id
from lakesql.graph.named_selectors import Selectors, parse_selectors
from lakesql.graph.selector import parse_selection, select_nodes
from lakesql.project.files import SourceFile
from tests.cases import each_of


def node(
    resource_type: ResourceType, name: str, reads: list[str], *tags: str
) -> GraphNode:
    return GraphNode(
        id=node_id(resource_type, name),
        name=name,
        resource_type=resource_type,
        path=f"models/{name}.sql",
        fqn=("shop", name),
        tags=frozenset(tags),
        config={"mode": "append", "is_paid": True, "count": 10},
        depends_on=tuple(reads),
        place=Place(f"models/{name}.sql"),
    )


GRAPH: Graph = build_graph(
    [
        node("stream", "events", []),
        node("model", "raw", ["stream.events"], "nightly"),
        node("model", "clean", ["model.raw"], "nightly", "core"),
        node("model", "costs", ["stream.events"], "core"),
        node("model", "report", ["model.clean", "model.costs"]),
    ]
)


def read(text: str) -> Selectors:
    return parse_selectors(SourceFile("selectors.yml", text))


def names(selectors: Selectors, *words: str, exclude: tuple[str, ...] = ()) -> set[str]:
    found = select_nodes(parse_selection(words, exclude, selectors.find), GRAPH)
    return {id_.partition(".")[2] for id_ in found.ids if id_.startswith("model.")}


def of(definition: str) -> Selectors:
    return read(
        f"selectors:\n- name: it\n  definition: {definition}\n- name: core\n  definition: 'tag:core'\n"
    )


@each_of(
    ("definition", "words"),
    [
        ("'tag:nightly'", ["tag:nightly"]),
        ("'raw+ costs'", ["raw+", "costs"]),
        ("'tag:nightly,tag:core'", ["tag:nightly,tag:core"]),
        ("{tag: nightly}", ["tag:nightly"]),
        ("{config.is_paid: true}", ["config.is_paid:true"]),
        ("{config.count: 10}", ["config.count:10"]),
        ("{method: tag, value: nightly}", ["tag:nightly"]),
        ("{method: fqn, value: clean, parents: true}", ["+clean"]),
        ("{method: fqn, value: clean, children: true}", ["clean+"]),
        ("{method: fqn, value: raw, children: true, children_depth: 1}", ["raw+1"]),
        ("{method: fqn, value: report, parents: true, parents_depth: 1}", ["1+report"]),
        ("{method: fqn, value: raw, childrens_parents: true}", ["@raw"]),
        ("{union: ['tag:nightly', {tag: core}]}", ["tag:nightly", "tag:core"]),
        (
            "{intersection: ['tag:nightly', {method: tag, value: core}]}",
            ["tag:nightly,tag:core"],
        ),
        (
            "{union: ['raw', {intersection: ['tag:nightly', 'tag:core']}]}",
            ["raw", "tag:nightly,tag:core"],
        ),
        ("{method: selector, value: core}", ["tag:core"]),
        ("{selector: core}", ["tag:core"]),
        ("'selector:core'", ["tag:core"]),
        ("{method: selector, value: core, parents: true}", ["+clean", "+costs"]),
        ("{selector: 'c?re'}", ["tag:core"]),
        ("'selector:[a-c]*+'", ["tag:core+"]),
        ("{method: selector, value: 'cor*', parents: true}", ["+clean", "+costs"]),
    ],
)
def test_a_definition_selects_what_the_same_words_select(
    definition: str, words: list[str]
) -> None:
    selectors = of(definition)
    assert names(selectors, "selector:it") == names(selectors, *words) != set()


@each_of(
    ("definition", "left"),
    [
        ("{union: ['tag:nightly', {exclude: ['tag:core']}]}", {"raw"}),
        ("{union: [{exclude: [clean]}, 'tag:nightly', 'tag:core']}", {"raw", "costs"}),
        ("{intersection: ['tag:core', {exclude: ['clean', 'report']}]}", {"costs"}),
        (
            "{method: tag, value: core, children: true, exclude: [{tag: nightly}]}",
            {"costs", "report"},
        ),
        # what is excluded is taken from its own list, not from what stands beside that
        (
            "{union: ['clean', {union: ['tag:nightly', {exclude: ['clean']}]}]}",
            {"clean", "raw"},
        ),
    ],
)
def test_exclude_takes_away_from_its_list(definition: str, left: set[str]) -> None:
    assert names(of(definition), "selector:it") == left


def test_a_name_is_a_word_as_others_are() -> None:
    selectors = of("{tag: nightly}")
    assert names(selectors, "selector:it+") == {"raw", "clean", "report"}
    assert names(selectors, "selector:it,selector:core") == {"clean"}
    assert names(selectors, "tag:core", exclude=("selector:it",)) == {"costs"}
    with pytest.raises(UsageError) as caught:
        names(selectors, "selector:itt", exclude=("selector:cor",))
    assert [(it.condition, it.fix) for it in caught.value.problems] == [
        ("unknown-selector", "Did you mean 'it'?"),
        ("unknown-selector", "Did you mean 'core'?"),
    ]


def test_a_glob_means_what_each_selector_that_it_matches_does() -> None:
    selectors = read(
        "selectors: [{name: web_a, definition: raw}, {name: web_b, definition: costs}, {name: b, definition: report}]"
    )
    assert names(selectors, "selector:web_*") == {"raw", "costs"}
    assert names(selectors, "selector:*b", exclude=("selector:web_?",)) == {"report"}
    assert names(selectors, "1+selector:[b]") == {"report", "clean", "costs"}
    with pytest.raises(UsageError) as caught:
        names(selectors, "selector:wob_*")
    assert [it.condition for it in caught.value.problems] == ["unknown-selector"]


def test_one_selector_may_be_the_default() -> None:
    assert read("selectors: [{name: a, definition: raw}]").default == ""
    assert (
        read(
            "selectors: [{name: a, definition: raw}, {name: b, definition: raw, default: true}]"
        ).default
        == "b"
    )


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        read(text)
    assert all(problem.fix for problem in caught.value.problems)
    return [
        (problem.condition, str(problem.place).removeprefix("selectors.yml:"))
        for problem in caught.value.problems
    ]


@each_of(
    ("definition", "condition"),
    [
        ("{method: tga, value: x}", "bad-selector"),
        ("{tga: x}", "bad-selector"),
        ("'tga:x'", "bad-selector"),
        ("''", "bad-selector"),
        ("{tag: ''}", "bad-selector"),
        ("{method: state, value: nwe}", "bad-selector"),
        ("{method: result, value: failed}", "bad-selector"),
        ("{method: tag}", "missing-option"),
        ("{method: tag, value: [x]}", "wrong-type"),
        ("{method: tag, value: x, childs: true}", "unknown-option"),
        ("{method: tag, value: x, children_depth: 2}", "wrong-value"),
        (
            "{method: tag, value: x, children: true, childrens_parents: true}",
            "wrong-value",
        ),
        ("{union: [a], intersection: [b]}", "wrong-value"),
        ("{union: [a], exclude: [b]}", "wrong-value"),
        ("{union: []}", "wrong-value"),
        ("{union: [{exclude: [a]}]}", "wrong-value"),
        ("{union: [a, {exclude: [b]}, {exclude: [c]}]}", "wrong-value"),
        ("{exclude: [a]}", "wrong-value"),
        ("{union: a}", "wrong-type"),
        ("[a]", "wrong-type"),
        ("{selector: itt}", "unknown-selector"),
        ("'selector:itt'", "unknown-selector"),
        ("{selector: it}", "selector-cycle"),
        ("{selector: 'i*'}", "selector-cycle"),
        ("{selector: 'x*'}", "unknown-selector"),
    ],
)
def test_a_wrong_definition_is_refused_at_its_place(
    definition: str, condition: str
) -> None:
    ((found, place),) = problems(
        f"selectors:\n- name: it\n  definition: {definition}\n"
    )
    assert found == condition
    assert place.startswith("3:")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    text = """\
selectors:
- {name: a, definition: {union: [raw, {selector: b}]}}
- {name: b, definition: 'selector:c+'}
- {name: c, definition: {method: selector, value: a}}
- {name: d, definition: {tag: nightly}, default: true}
- {name: d, definition: raw}
- {name: e, definition: raw, default: yes}
- {name: two words, definition: raw}
- {definition: raw}
- {name: f, definition: {tga: x}}
- {name: g, definition: {selector: f}}
"""
    assert problems(text) == [
        ("duplicate-name", "6:4"),
        ("wrong-value", "7:30"),
        ("bad-name", "8:10"),
        ("missing-option", "9:3"),
        ("selector-cycle", "4:26"),
        ("bad-selector", "10:26"),
    ]


def test_a_file_that_is_none() -> None:
    assert [condition for condition, _ in problems("selector: []")] == [
        "unknown-option",
        "missing-option",
    ]
    assert [condition for condition, _ in problems("selectors: {a: b}")] == [
        "wrong-type"
    ]
    assert [condition for condition, _ in problems("selectors: [")] == ["yaml-syntax"]
