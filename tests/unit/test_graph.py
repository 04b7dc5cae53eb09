from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import InternalError, Place, ProjectError
from lakesql.graph.graph import Graph, GraphNode, build_graph, node_id
from tests.cases import each_of

# stream.a -> a -> b -> c, and d beside them: an arrow goes to the reader.
CHAIN = {"a": ["stream.a"], "b": ["model.a"], "c": ["model.b"], "d": ["stream.a"]}


def model(
    name: str, reads: list[str], references: dict[str, Place] | None = None
) -> GraphNode:
    return GraphNode(
        id=node_id("model", name),
        name=name,
        resource_type="model",
        path=f"models/{name}.sql",
        fqn=("shop", name),
        tags=frozenset(),
        config={},
        depends_on=tuple(reads),
        place=Place(f"models/{name}.sql"),
        references=references or {},
    )


def stream(name: str) -> GraphNode:
    return GraphNode(
        id=node_id("stream", name),
        name=name,
        resource_type="stream",
        path="streams/shop.yml",
        fqn=("shop", name),
        tags=frozenset(),
        config={},
        depends_on=(),
        place=Place("streams/shop.yml"),
    )


def graph_of(reads: dict[str, list[str]]) -> Graph:
    streams = {
        read for every in reads.values() for read in every if read.startswith("stream.")
    }
    return build_graph(
        [
            *(model(name, every) for name, every in reads.items()),
            *(stream(id_.removeprefix("stream.")) for id_ in streams),
        ]
    )


def test_a_model_and_a_stream_may_share_a_name() -> None:
    graph = graph_of(CHAIN)
    assert graph.nodes["stream.a"].resource_type == "stream"
    assert graph.nodes["model.a"].depends_on == ("stream.a",)


@each_of(
    ("depth", "expected"),
    [
        (None, {"model.b", "model.a", "stream.a"}),
        (0, set()),
        (1, {"model.b"}),
        (2, {"model.b", "model.a"}),
        (9, {"model.b", "model.a", "stream.a"}),
    ],
)
def test_upstream_holds_what_is_read_within_the_depth(
    depth: int | None, expected: set[str]
) -> None:
    assert graph_of(CHAIN).upstream(["model.c"], depth) == expected


@each_of(
    ("depth", "expected"),
    [
        (None, {"model.a", "model.b", "model.c", "model.d"}),
        (0, set()),
        (1, {"model.a", "model.d"}),
        (2, {"model.a", "model.b", "model.d"}),
    ],
)
def test_downstream_holds_the_readers_within_the_depth(
    depth: int | None, expected: set[str]
) -> None:
    assert graph_of(CHAIN).downstream(["stream.a"], depth) == expected


def test_relatives_of_several_include_those_of_them_that_are_relatives_of_others() -> (
    None
):
    graph = graph_of(CHAIN)
    assert graph.downstream(["model.a", "model.b"], 1) == {"model.b", "model.c"}
    assert graph.upstream(["model.a", "model.b"], 1) == {"model.a", "stream.a"}


def test_a_depth_counts_the_shortest_way() -> None:
    graph = graph_of(
        {
            "a": ["stream.a"],
            "b": ["model.a"],
            "c": ["model.a", "model.b"],
            "d": ["model.c"],
        }
    )
    assert graph.downstream(["model.a"], 2) == {"model.b", "model.c", "model.d"}


def test_order_puts_what_is_read_first_and_else_goes_by_name() -> None:
    graph = graph_of(
        {"z": ["stream.s"], "a": ["model.z"], "c": ["stream.s"], "b": ["stream.s"]}
    )
    assert graph.order(graph.nodes) == (
        "stream.s",
        "model.b",
        "model.c",
        "model.z",
        "model.a",
    )
    assert graph.order(["model.c", "model.a", "model.b"]) == (
        "model.a",
        "model.b",
        "model.c",
    )
    assert graph.order([]) == ()


def test_order_does_not_depend_on_the_order_of_the_files() -> None:
    names = list(CHAIN)
    forwards = graph_of({name: CHAIN[name] for name in names})
    backwards = graph_of({name: CHAIN[name] for name in reversed(names)})
    assert forwards.order(forwards.nodes) == backwards.order(backwards.nodes)
    assert list(forwards.nodes) == list(backwards.nodes)


def test_order_holds_through_nodes_that_are_not_selected() -> None:
    graph = graph_of({"z": ["stream.s"], "m": ["model.z"], "a": ["model.m"]})
    assert graph.order(["model.a", "model.z"]) == ("model.z", "model.a")
    assert graph.predecessors_within(["model.a", "model.z"]) == {
        "model.z": frozenset(),
        "model.a": frozenset({"model.z"}),
    }


def test_predecessors_are_the_nearest_only() -> None:
    assert graph_of(CHAIN).predecessors_within(
        ["model.a", "model.b", "model.c", "model.d"]
    ) == {
        "model.a": frozenset(),
        "model.b": frozenset({"model.a"}),
        "model.c": frozenset({"model.b"}),
        "model.d": frozenset(),
    }


def test_a_cycle_names_all_of_it_and_stands_at_the_reference_that_closes_it() -> None:
    closing = Place("models/c.sql", 3, 12)
    nodes = [
        model("c", ["model.a"], {"model.a": closing}),
        model("b", ["model.c"]),
        model("a", ["stream.s", "model.b"]),
        model("reader_of_it", ["model.c"]),
        stream("s"),
    ]
    with pytest.raises(ProjectError) as caught:
        build_graph(nodes)
    [problem] = caught.value.problems
    assert problem.condition == "cycle"
    assert "a -> b -> c -> a" in problem.what
    assert "reader_of_it" not in problem.what
    assert problem.place == closing


def test_a_model_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(ProjectError) as caught:
        build_graph([model("a", ["model.a"])])
    [problem] = caught.value.problems
    assert problem.condition == "cycle"
    assert "a -> a" in problem.what
    assert problem.place == Place("models/a.sql")


def test_cycles_apart_are_problems_apart() -> None:
    for read_by_c in (["model.c"], ["model.a", "model.c"]):
        with pytest.raises(ProjectError) as caught:
            build_graph(
                [
                    model("a", ["model.b"]),
                    model("b", ["model.a"]),
                    model("c", read_by_c),
                ]
            )
        assert [problem.place for problem in caught.value.problems] == [
            Place("models/b.sql"),
            Place("models/c.sql"),
        ]


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"m{number:05}" for number in range(5000)]
    reads = {name: [node_id("model", before)] for before, name in pairwise(names)}
    graph = graph_of({names[0]: [], **reads})
    assert len(graph.upstream([node_id("model", names[-1])])) == 4999
    with pytest.raises(ProjectError):
        graph_of({names[0]: [node_id("model", names[-1])], **reads})


@pytest.mark.parametrize(
    "nodes", [[model("a", ["model.gone"])], [model("a", []), model("a", [])]]
)
def test_unknown_and_duplicate_ids_are_internal_errors(nodes: list[GraphNode]) -> None:
    with pytest.raises(InternalError):
        build_graph(nodes)


@given(
    st.lists(st.sets(st.integers(0, 11)), max_size=12),
    st.permutations(range(12)),
    st.sets(st.integers(0, 11)),
)
def test_order_keeps_every_path(
    reads: list[set[int]], labels: list[int], chosen: set[int]
) -> None:
    """In any graph, a node stands after every chosen node that it reads by any way, and
    has the nearest to wait for."""
    ids = [node_id("model", f"m{labels[number]:02}") for number in range(len(reads))]
    graph = build_graph(
        model(
            id_.removeprefix("model."), [ids[read] for read in every if read < number]
        )
        for number, (id_, every) in enumerate(zip(ids, reads, strict=True))
    )
    wanted = {ids[number] for number in chosen if number < len(ids)}
    order = graph.order(wanted)
    assert sorted(order) == sorted(wanted)
    before = graph.predecessors_within(wanted)
    for index, id_ in enumerate(order):
        assert graph.upstream([id_]) & wanted <= set(order[:index])
        assert before[id_] <= graph.upstream([id_]) & wanted
        assert graph.upstream([id_]) & wanted == before[id_] | (
            graph.upstream(before[id_]) & wanted
        )
