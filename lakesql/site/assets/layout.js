"use strict";
// Runs in a worker behind dagre: lays out each connected part by itself, then the parts in rows.
onmessage = ({ data: { sizes, edges, ranksep, nodesep, ratio } }) => {
  const parent = sizes.map((_, at) => at);
  const top = (at) => { while (parent[at] !== at) at = parent[at] = parent[parent[at]]; return at; };
  for (const [a, b] of edges) parent[top(a)] = top(b);
  const parts = new Map();
  sizes.forEach((_, at) => parts.set(top(at), [...(parts.get(top(at)) ?? []), at]));
  const of = new Map([...parts.keys()].map((key) => [key, []]));
  for (const edge of edges) of.get(top(edge[0])).push(edge);
  const places = sizes.map(() => [0, 0]);
  const boxes = [];
  for (const [key, members] of parts) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", ranksep, nodesep, ranker: members.length > 60 ? "tight-tree" : "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const at of members) graph.setNode(String(at), { width: sizes[at][0], height: sizes[at][1] });
    for (const [a, b] of of.get(key)) graph.setEdge(String(a), String(b));
    dagre.layout(graph);
    for (const at of members) { const { x, y } = graph.node(String(at)); places[at] = [x, y]; }
    boxes.push({ members, width: graph.graph().width, height: graph.graph().height });
  }
  boxes.sort((a, b) => b.height - a.height || b.width - a.width);
  const area = boxes.reduce((sum, box) => sum + (box.width + 60) * (box.height + 40), 0);
  const widest = Math.max(Math.sqrt(area * ratio), ...boxes.map((box) => box.width));
  let x = 0, y = 0, tallest = 0;
  for (const box of boxes) {
    if (x && x + box.width > widest) { x = 0; y += tallest + 40; tallest = 0; }
    for (const at of box.members) places[at] = [places[at][0] + x, places[at][1] + y];
    x += box.width + 60;
    tallest = Math.max(tallest, box.height);
  }
  postMessage(places);
};
