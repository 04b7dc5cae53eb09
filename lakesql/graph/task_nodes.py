"""The maintenance tasks of the models' tables, as nodes of the graph."""

from __future__ import annotations

from dataclasses import replace

from lakesql.graph.graph import Graph, GraphNode, node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.maintenance_tasks import MaintenanceTask, maintenance_tasks
from lakesql.modes.all_modes import MAINTENANCE


def graph_with_tasks(manifest: Manifest) -> Graph:
    """The graph with the maintenance tasks added, each as a reader of its model.

    They are not in the manifest's graph, as there are many of them, and few commands
    need them.
    """
    graph = manifest.graph
    nodes, readers = dict(graph.nodes), dict(graph.readers)
    for model in manifest.models.values():
        own = node_id("model", model.name)
        found = [task_node(manifest, task) for task in maintenance_tasks(model)]
        nodes.update((node.id, node) for node in found)
        readers.update((node.id, ()) for node in found)
        readers[own] = (*readers[own], *(node.id for node in found))
    return Graph(nodes, readers)


def find_task(manifest: Manifest, node: GraphNode) -> MaintenanceTask:
    """The task of a node whose type is `maintenance`."""
    model = manifest.models[str(node.config["of"])]
    return next(task for task in maintenance_tasks(model) if task.name == node.name)


def task_node(manifest: Manifest, task: MaintenanceTask) -> GraphNode:
    """The node of a task for the graph."""
    model = manifest.models[task.model]
    own = node_id("model", model.name)
    node = GraphNode(
        id=node_id("maintenance", task.name),
        name=task.name,
        resource_type="maintenance",
        path=model.path,
        fqn=(*model.fqn[:-1], task.owner, task.procedure),
        tags=frozenset(),
        config={"mode": MAINTENANCE, "of": model.name},
        depends_on=(own,),
        place=model.place,
        references={own: model.place},
        is_appended=True,
    )
    if task.written is None:
        return node
    file = manifest.written[task.written.of]
    return replace(
        node,
        path=file.path,
        fqn=(*file.fqn, task.name.removeprefix(f"{file.name}.")),
        tags=frozenset(file.config.tags),
        config={**file.options, "tags": list(file.config.tags)},
        place=task.written.place,
        references={own: file.option_place("of")},
        is_appended=False,
    )
