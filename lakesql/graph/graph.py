"""The graph of a project: which nodes read which, and in which order they run. Ids are
`model.orders`, `stream.orders` and the like."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal, get_args

from lakesql.errors import InternalError, Place, Problem, ProjectError

ResourceType = Literal["model", "stream", "seed", "maintenance", "test"]
RESOURCE_TYPES: tuple[ResourceType, ...] = get_args(ResourceType)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A model, a stream, a seed, a data test or a maintenance task, with what the graph
    and the selector need of it.

    `path` is that of its file, relative to the project's directory, with slashes. `fqn`
    is the project's name, the folders below `models/`, and the name. `config` holds
    every option as a plain value (scalars, lists, dicts). `depends_on` are the ids that
    the node reads, and `references` the places where it names them. `is_appended`: it
    has no file of its own, and `path` is that of its model. `states` are the values of
    `state:` that match it; None if it was not compared with another version of the
    project. `results` are the values of `result:`, from an earlier command; None if no
    results were read.
    """

    id: str
    name: str
    resource_type: ResourceType
    path: str
    fqn: tuple[str, ...]
    tags: frozenset[str]
    config: Mapping[str, object]
    depends_on: tuple[str, ...]
    place: Place
    references: Mapping[str, Place] = field(default_factory=dict)
    is_appended: bool = False
    states: frozenset[str] | None = None
    results: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes by id, each after those it reads. There is no cycle, as `build_graph`
    checks.

    Every id that is passed to a method is one of `nodes`.
    """

    nodes: Mapping[str, GraphNode]
    readers: Mapping[str, tuple[str, ...]]

    def upstream(self, ids: Iterable[str], depth: int | None = None) -> frozenset[str]:
        """The ids of all that the nodes read, at most `depth` steps away. An id of
        `ids` is included if another of them reads it."""
        return _reach(
            {id_: node.depends_on for id_, node in self.nodes.items()}, ids, depth
        )

    def downstream(
        self, ids: Iterable[str], depth: int | None = None
    ) -> frozenset[str]:
        """The ids of all that reads the nodes, at most `depth` steps away. An id of
        `ids` is included if it reads another of them."""
        return _reach(self.readers, ids, depth)

    def order(self, ids: Iterable[str]) -> tuple[str, ...]:
        """`ids`, each after those it reads, directly or through nodes that are not in
        `ids`; independent ones by name."""
        return _sort(self.predecessors_within(ids), self.nodes)

    def predecessors_within(self, ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """For each of `ids`, those of `ids` that must be done before it starts.

        A node that is not in `ids` still passes on the order of its neighbours: if c
        reads b and b reads a, c waits for a in a run of only a and c.
        """
        wanted = frozenset(ids)
        before: dict[str, frozenset[str]] = {}
        for id_, node in self.nodes.items():
            direct = (
                frozenset((read,)) if read in wanted else before[read]
                for read in node.depends_on
            )
            before[id_] = frozenset().union(*direct)
        return {id_: before[id_] for id_ in self.nodes if id_ in wanted}


def with_states(graph: Graph, states: Mapping[str, frozenset[str]]) -> Graph:
    """The graph with `states` in its nodes, by id: how each differs from another
    version of the project."""
    nodes = {
        id_: replace(node, states=states.get(id_, frozenset()))
        for id_, node in graph.nodes.items()
    }
    return replace(graph, nodes=nodes)


def with_results(graph: Graph, results: Mapping[str, frozenset[str]]) -> Graph:
    """The graph with `results` in its nodes, by id: how each ended in an earlier
    command."""
    nodes = {
        id_: replace(node, results=results.get(id_, frozenset()))
        for id_, node in graph.nodes.items()
    }
    return replace(graph, nodes=nodes)


def node_id(resource_type: ResourceType, name: str) -> str:
    """The id of a node. It includes the type, as a model and a stream may have the same
    name."""
    return f"{resource_type}.{name}"


def build_graph(nodes: Iterable[GraphNode]) -> Graph:
    """The graph of `nodes`, whose ids must be unique, and whose `depends_on` must be
    ids of `nodes`.

    Raises `ProjectError` (`cycle`) with at least one cycle, one problem for each. No
    two of the reported cycles share a node; the place is the reference that closes the
    cycle.
    """
    every = tuple(nodes)
    by_id = {node.id: node for node in every}
    unknown = {read for node in every for read in node.depends_on} - by_id.keys()
    if len(by_id) < len(every) or unknown:
        raise InternalError.of(
            "internal",
            f"Ids of the graph are not unique, or not known: {sorted(unknown)}.",
        )
    try:
        order = _sort({id_: node.depends_on for id_, node in by_id.items()}, by_id)
    except CycleError:
        raise ProjectError(
            _cycle_problem(cycle, by_id) for cycle in _find_cycles(by_id)
        ) from None
    return graph_of(by_id[id_] for id_ in order)


def graph_of(nodes: Iterable[GraphNode]) -> Graph:
    """The graph of nodes that are already ordered, each after those it reads."""
    by_id = {node.id: node for node in nodes}
    readers: dict[str, list[str]] = {id_: [] for id_ in by_id}
    for id_, node in by_id.items():
        for read in dict.fromkeys(node.depends_on):
            readers[read].append(id_)
    return Graph(by_id, {id_: tuple(reading) for id_, reading in readers.items()})


def _sort(
    before: Mapping[str, Collection[str]], nodes: Mapping[str, GraphNode]
) -> tuple[str, ...]:
    """The ids, each after those in its `before`; independent ones by name. Raises
    `CycleError`."""
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[tuple[str, str]] = []
    order: list[str] = []
    while sorter.is_active():
        for id_ in sorter.get_ready():
            heapq.heappush(ready, (nodes[id_].name, id_))
        _, done = heapq.heappop(ready)
        order.append(done)
        sorter.done(done)
    return tuple(order)


def _find_cycles(nodes: Mapping[str, GraphNode]) -> Iterable[tuple[str, ...]]:
    """Cycles in which each node reads the next one, starting with the first by name. No
    two share a node."""
    left = {
        id_: nodes[id_].depends_on
        for id_ in sorted(nodes, key=lambda id_: nodes[id_].name)
    }
    while True:
        try:
            TopologicalSorter(left).prepare()
            return
        except CycleError as error:
            # in graphlib's cycle each node is read by the next one, and the last is the
            # first again
            cycle = error.args[1][:0:-1]
        first = cycle.index(min(cycle, key=lambda id_: nodes[id_].name))
        yield (*cycle[first:], *cycle[:first])
        left = {
            id_: tuple(read for read in reads if read not in cycle)
            for id_, reads in left.items()
            if id_ not in cycle
        }


def _cycle_problem(cycle: tuple[str, ...], nodes: Mapping[str, GraphNode]) -> Problem:
    last, first = nodes[cycle[-1]], nodes[cycle[0]]
    names = " -> ".join(nodes[id_].name for id_ in (*cycle, cycle[0]))
    if last is first:
        what = f"The model '{first.name}' reads itself: {names}."
        fix = "A model can name its own table as {{ this }}; it cannot depend on it."
    else:
        what = f"These models read one another in a circle: {names}."
        fix = "Let one of them read what the next one reads, instead of the next one."
    why = "A model runs after those it reads, so none of these could be the first."
    return Problem("cycle", what, why, fix, last.references.get(first.id, last.place))


def _reach(
    edges: Mapping[str, tuple[str, ...]], ids: Iterable[str], depth: int | None
) -> frozenset[str]:
    """The ids that can be reached from `ids` in at least one step, and at most
    `depth`."""
    reached: set[str] = set()
    layer = set(ids)
    while layer and (depth is None or depth > 0):
        layer = {next_id for id_ in layer for next_id in edges[id_]} - reached
        reached |= layer
        depth = None if depth is None else depth - 1
    return frozenset(reached)
