"use strict";
(() => {
  const data = window.lakesqlSite;
  const { nodes, kinds } = data;
  const reads = nodes.map(() => []), readers = nodes.map(() => []);
  for (const [from, to] of data.edges) { reads[to].push(from); readers[from].push(to); }
  const numbers = new Map(nodes.map((node, at) => [node.id, at]));
  const key = (node, column) => `${node}/${column}`;
  const into = new Map(), outOf = new Map();
  for (const edge of data.lineage) {
    const [from, column, to, made] = edge;
    for (const [map, at] of [[into, key(to, made)], [outOf, key(from, column)]]) map.set(at, [...(map.get(at) ?? []), edge]);
  }

  const byId = (id) => document.getElementById(id);
  const canvas = byId("canvas"), panel = byId("panel"), walked = byId("walked"), input = byId("selector"), said = byId("selector-said");
  document.querySelector(".graph").hidden = false;
  let chosen = -1, traced = null, shown = null;

  // --- the picture

  const measure = document.createElement("canvas").getContext("2d");
  const FONT = "system-ui, sans-serif";
  const shorten = (text) => text.length > 34 ? `${text.slice(0, 32)}…` : text;
  const width = (text, size = 13) => { measure.font = `${size}px ${FONT}`; return Math.ceil(measure.measureText(text).width); };

  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return Object.fromEntries(["text", "quiet", "line", "strong", "ground", "raised", "accent", "stream", "model", "seed", "table", "bad", "warning", "good"].map((name) => [name, of(name)]));
  };

  function styles() {
    const c = colours();
    return [
      { selector: "node", style: { shape: "round-rectangle", width: "data(width)", height: "data(height)", label: "data(label)", "font-family": FONT, "font-size": 13, color: c.text, "text-valign": "center", "text-halign": "center", "background-color": c.raised, "border-width": 1.5, "border-color": c.line, "min-zoomed-font-size": 5 } },
      ...["stream", "model", "seed", "table"].map((type) => ({ selector: `node.${type}`, style: { "border-color": c[type] } })),
      { selector: "node.table", style: { "border-style": "dashed" } },
      ...["stream", "model", "seed", "table"].map((type) => ({ selector: `node.${type}.small`, style: { "background-color": c[type], "border-width": 0 } })),
      { selector: "node.bad", style: { "border-color": c.bad, "border-width": 3 } },
      { selector: "node.warning", style: { "border-color": c.warning, "border-width": 3 } },
      { selector: "node.box", style: { "z-index": 0, "z-index-compare": "manual", "text-valign": "top", "text-margin-y": 20, "font-weight": 600 } },
      { selector: "node.column", style: { "background-color": c.ground, "border-width": 1, "border-color": c.strong, "font-size": 12, "z-index": 5, "z-index-compare": "manual" } },
      { selector: "node.start", style: { "background-color": c.accent, "border-color": c.accent, color: c.ground } },
      { selector: "edge", style: { width: 1.4, "line-color": c.strong, "target-arrow-color": c.strong, "z-index": 4, "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "bezier", "source-endpoint": "90deg", "target-endpoint": "-90deg" } },
      { selector: "edge.many", style: { "curve-style": "haystack", "target-arrow-shape": "none" } },
      { selector: "edge.indirect", style: { "line-style": "dashed" } },
      { selector: "edge.of-columns", style: { "z-index": 4, "z-index-compare": "manual" } },
      { selector: "edge.near", style: { "line-color": c.accent, "target-arrow-color": c.accent, width: 2.2 } },
      { selector: "node.near", style: { "border-color": c.accent } },
      { selector: ".far", style: { opacity: 0.25 } },
      { selector: "node.chosen", style: { "border-color": c.accent, "border-width": 4 } },
    ];
  }

  const cy = cytoscape({ container: canvas, style: styles(), minZoom: 0.02, maxZoom: 2.5, hideEdgesOnViewport: nodes.length > 400, textureOnViewport: nodes.length > 400, autoungrabify: true, boxSelectionEnabled: false });
  window.lakesqlGraph = cy;
  document.addEventListener("theme", () => cy.style(styles()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles()));

  // From afar a node is a spot of its colour: its border and its name would not be seen.
  let isSmall = false;
  const spots = () => {
    if (isSmall === cy.zoom() < 0.28) return;
    isSmall = !isSmall;
    cy.batch(() => cy.nodes().not(".box, .column").toggleClass("small", isSmall));
  };
  cy.on("zoom", spots);

  let worker = null;
  function layout(sizes, edges, space, done) {
    worker?.terminate();
    const ratio = Math.max(canvas.clientWidth / Math.max(canvas.clientHeight, 1), 0.5);
    try {
      const source = URL.createObjectURL(new Blob([window.lakesqlLayout], { type: "text/javascript" }));
      worker = new Worker(source);
      worker.onmessage = ({ data: places }) => { worker.terminate(); worker = null; URL.revokeObjectURL(source); done(places, true); };
      worker.onerror = () => { worker = null; };
      worker.postMessage({ sizes, edges, ratio, ...space });
    } catch { worker = null; }
    return worker !== null;
  }

  // Where nodes are until the worker has found better places: each right of all that it reads.
  function inRanks(sizes, edges) {
    const before = sizes.map(() => []);
    for (const [a, b] of edges) before[b].push(a);
    const rank = sizes.map(() => -1);
    const rankOf = (at) => {
      const stack = [at];
      while (stack.length) {
        const top = stack.at(-1), open = before[top].filter((each) => rank[each] < 0);
        if (open.length && stack.length < sizes.length + 1) stack.push(...open);
        else { rank[top] = Math.max(-1, ...before[top].map((each) => rank[each])) + 1; stack.pop(); }
      }
    };
    sizes.forEach((_, at) => rank[at] < 0 && rankOf(at));
    const height = [];
    return sizes.map(([w, h], at) => {
      const y = height[rank[at]] ?? 0;
      height[rank[at]] = y + h + 14;
      return [rank[at] * 260 + w / 2, y + h / 2];
    });
  }

  function draw(elements, sizes, edges, space, put, after) {
    const first = inRanks(sizes, edges);
    canvas.dataset.layout = "waiting";
    cy.elements().remove();
    cy.add(elements);
    isSmall = false;
    const place = (places) => { cy.batch(() => put(places)); if (!moved) fit(); after?.(); };
    let moved = false;
    const watch = () => { moved = true; };
    if (sizes.length > 150) place(first);
    const isWaiting = layout(sizes, edges, space, (places) => { canvas.removeEventListener("wheel", watch); place(places); canvas.dataset.layout = "done"; });
    if (isWaiting) canvas.addEventListener("wheel", watch, { once: true, passive: true });
    else if (sizes.length <= 150) place(first);
  }

  function fit() { cy.fit(undefined, 32); spots(); if (cy.zoom() > 1.15) { cy.zoom(1.15); cy.center(); } }

  function drawNodes() {
    traced = null;
    const listed = shown ?? nodes.map((_, at) => at);
    const places = new Map(listed.map((at, place) => [at, place]));
    const sizes = listed.map((at) => [Math.max(width(shorten(nodes[at].name)) + 26, 60), 32]);
    const edges = data.edges.flatMap(([a, b]) => places.has(a) && places.has(b) ? [[places.get(a), places.get(b)]] : []);
    const many = edges.length > 600 ? " many" : "";
    const elements = listed.map((at, place) => ({ data: { id: `n${at}`, at, label: shorten(nodes[at].name), width: sizes[place][0], height: sizes[place][1] }, classes: `${nodes[at].type} ${nodes[at].errors ? "bad" : nodes[at].tone}` }));
    for (const [a, b] of edges) elements.push({ data: { source: `n${listed[a]}`, target: `n${listed[b]}` }, classes: many });
    draw(elements, sizes, edges, { ranksep: 70, nodesep: 14 }, (found) => cy.nodes().positions((node) => {
      const [x, y] = found[places.get(node.data("at"))];
      return { x, y };
    }), () => mark());
  }

  // --- one column, with all that it is made of and all that reads it

  function closure(node, column) {
    const edges = new Set(), keys = new Set([key(node, column)]);
    for (const [map, other] of [[into, (edge) => [edge[0], edge[1]]], [outOf, (edge) => [edge[2], edge[3]]]]) {
      const seen = new Set([key(node, column)]), waiting = [[node, column]];
      while (waiting.length) {
        const at = waiting.shift();
        for (const edge of map.get(key(...at)) ?? []) {
          edges.add(edge);
          const next = other(edge);
          keys.add(key(...next));
          if (!seen.has(key(...next)) && next[1] >= 0) { seen.add(key(...next)); waiting.push(next); }
        }
      }
    }
    return { edges: [...edges], keys: [...keys].map((each) => each.split("/").map(Number)) };
  }

  const labelOf = (at) => nodes[at].type === "model" ? nodes[at].name : `${nodes[at].type}:${nodes[at].name}`;
  const columnName = (node, column) => column < 0 ? "rows" : nodes[node].columns[column][0];

  function drawColumn(node, column) {
    traced = [node, column];
    const { edges, keys } = closure(node, column);
    const boxes = [...new Set(keys.map(([at]) => at))];
    const places = new Map(boxes.map((at, place) => [at, place]));
    const inBox = new Map(boxes.map((at) => [at, keys.filter(([each]) => each === at).map(([, made]) => made).sort((a, b) => a - b)]));
    const sizes = boxes.map((at) => [Math.max(width(shorten(nodes[at].name), 14) + 40, ...inBox.get(at).map((made) => width(shorten(columnName(at, made)), 12) + 48), 110), 42 + inBox.get(at).length * 30]);
    const between = [...new Set(edges.filter((edge) => edge[0] !== edge[2]).map((edge) => `${places.get(edge[0])} ${places.get(edge[2])}`))].map((each) => each.split(" ").map(Number));
    const elements = [];
    boxes.forEach((at, place) => {
      elements.push({ data: { id: `n${at}`, at, label: shorten(nodes[at].name), width: sizes[place][0], height: sizes[place][1] }, classes: `box ${nodes[at].type}` });
      for (const made of inBox.get(at)) elements.push({ data: { id: `c${at}/${made}`, at, made, label: shorten(columnName(at, made)), width: sizes[place][0] - 20, height: 24 }, classes: `column${at === node && made === column ? " start" : ""}` });
    });
    for (const [from, read, to, made, kind] of edges) elements.push({ data: { source: `c${from}/${read}`, target: `c${to}/${made}`, label: kinds[kind] }, classes: kind < data.direct ? "of-columns" : "of-columns indirect" });
    draw(elements, sizes, between, { ranksep: 110, nodesep: 26 }, (found) => boxes.forEach((at, place) => {
      const [x, y] = found[place];
      cy.$id(`n${at}`).position({ x, y });
      inBox.get(at).forEach((made, line) => cy.$id(`c${at}/${made}`).position({ x, y: y - sizes[place][1] / 2 + 48 + line * 30 }));
    }), () => mark());
  }

  // --- the panel

  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  function columnButton(node, column, label) {
    const button = make("button", label ?? columnName(node, column), "column");
    button.type = "button";
    button.addEventListener("click", () => go(node, column));
    return button;
  }

  function showPanel() {
    if (chosen < 0) {
      panel.replaceChildren(make("p", "Choose a node: its columns stand here, and each can be traced through the project.", "empty"));
      return;
    }
    const node = nodes[chosen], parts = [];
    const above = make("p", undefined, "above");
    above.append(make("span", node.type === "table" ? "table of others" : node.type, `chip ${node.type}`));
    if (node.mode) above.append(" ", make("span", node.mode.replace(/_/g, " "), "how"));
    if (node.health) above.append(" ", make("span", node.health, `health ${node.tone}`));
    const title = make("h2"), link = make("a", node.name);
    link.href = node.href;
    title.append(link);
    parts.push(above, title);
    if (node.errors) parts.push(make("p", node.errors === 1 ? "1 error" : `${node.errors} errors`, "health bad"));
    if (node.about) parts.push(make("p", node.about));
    if (node.owner) parts.push(make("p", `Owner: ${node.owner}`));
    if (traced) {
      const [of, column] = traced;
      const back = make("button", "Whole graph", "back");
      back.type = "button";
      back.addEventListener("click", leave);
      parts.push(back, make("h3", `${labelOf(of)}.${columnName(of, column)}`));
      const { edges } = closure(of, column);
      for (const [label, map, other] of [["Made of", into, (edge) => [edge[0], edge[1]]], ["Read by", outOf, (edge) => [edge[2], edge[3]]]]) {
        const list = make("ul", undefined, "edges");
        for (const edge of map.get(key(of, column)) ?? []) {
          const item = make("li"), [at, made] = other(edge);
          if (made < 0) item.append(`${labelOf(at)} · rows `);
          else item.append(columnButton(at, made, `${labelOf(at)}.${columnName(at, made)}`), " ");
          item.append(make("span", kinds[edge[4]].replace("_", " "), "how"));
          list.append(item);
        }
        if (list.children.length) parts.push(make("h4", label), list);
      }
      if (!edges.length) parts.push(make("p", "No other column of the project is made of it, nor it of one.", "empty"));
    }
    parts.push(make("h3", node.columns.length ? `Columns (${node.columns.length})` : "Columns"));
    const list = make("ul", undefined, "column-list");
    node.columns.forEach(([, type], column) => {
      const item = make("li");
      const button = columnButton(chosen, column);
      if (traced && traced[0] === chosen && traced[1] === column) button.setAttribute("aria-current", "true");
      item.append(button, make("span", type, "type"));
      list.append(item);
    });
    parts.push(node.columns.length ? list : make("p", "No columns are known yet.", "empty"));
    panel.replaceChildren(...parts);
  }

  function mark() {
    cy.batch(() => {
      cy.elements().removeClass("chosen near far");
      if (chosen < 0) return;
      const node = cy.$id(`n${chosen}`);
      node.addClass("chosen");
      if (traced || !node.length) return;
      const near = node.union(node.predecessors()).union(node.successors());
      cy.elements().not(near).addClass("far");
      node.connectedEdges().addClass("near");
      node.neighborhood("node").addClass("near");
    });
  }

  function choose(at, { centre = false } = {}) {
    chosen = at;
    mark();
    showPanel();
    if (at < 0) return;
    const { name, type, columns } = nodes[at];
    const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
    walked.textContent = `${name}, ${type}, reads ${reads[at].length}, read by ${readers[at].length}, ${counted(columns.length, "column")}`;
    const node = cy.$id(`n${at}`);
    if (centre && node.length) cy.animate({ center: { eles: node }, zoom: Math.max(cy.zoom(), 0.6) }, { duration: 150 });
  }

  function go(at, column) {
    const name = column === undefined ? "" : `/${encodeURIComponent(columnName(at, column))}`;
    const hash = `#${encodeURIComponent(nodes[at].id)}${name}`;
    if (location.hash === hash) follow(); else location.hash = hash;
  }

  function leave() {
    if (traced) { history.replaceState(null, "", `#${encodeURIComponent(nodes[chosen].id)}`); drawNodes(); choose(chosen); }
    else { history.replaceState(null, "", location.pathname); choose(-1); fit(); walked.textContent = "No node is chosen."; }
  }

  function follow() {
    const [id, name] = location.hash.slice(1).split("/").map(decodeURIComponent);
    const at = numbers.get(id);
    if (at === undefined) { if (!cy.nodes().length) drawNodes(); return; }
    const column = name === undefined ? -1 : nodes[at].columns.findIndex(([each]) => each.toLowerCase() === name.toLowerCase());
    if (column >= 0) { chosen = at; drawColumn(at, column); choose(at); return; }
    if (traced || !cy.nodes().length || !cy.$id(`n${at}`).length) {
      if (shown && !shown.includes(at)) { shown = null; input.value = ""; said.textContent = ""; }
      drawNodes();
    }
    choose(at, { centre: cy.zoom() < 0.5 });
  }

  // --- by hand and by key

  cy.on("tap", "node", ({ target }) => {
    const { at, made } = target.data();
    canvas.focus({ preventScroll: true });
    if (made !== undefined && made >= 0) go(at, made);
    else if (traced) choose(at);
    else go(at);
  });
  cy.on("dbltap", "node", ({ target }) => { location.href = nodes[target.data("at")].href; });
  cy.on("tap", ({ target }) => { if (target === cy && chosen >= 0 && !traced) leave(); });

  function step(direction) {
    const there = cy.nodes("[at]").filter((node) => !node.hasClass("column"));
    if (!there.length) return;
    const now = cy.$id(`n${chosen}`);
    if (!now.length) {
      const first = there.min((node) => node.position("x") * 10 + node.position("y")).ele;
      choose(first.data("at"), { centre: true });
      return;
    }
    const { x, y } = now.position();
    let others;
    if (direction === "left" || direction === "right") {
      const beside = new Set((direction === "left" ? reads : readers)[chosen]);
      others = there.filter((node) => beside.has(node.data("at")));
    } else {
      const isDown = direction === "down";
      const near = (node) => Math.abs(node.position("x") - x) < 130;
      others = there.filter((node) => near(node) && (isDown ? node.position("y") > y + 1 : node.position("y") < y - 1));
    }
    if (!others.length) return;
    const next = others.min((node) => Math.abs(node.position("y") - y) * 10 + Math.abs(node.position("x") - x)).ele;
    choose(next.data("at"), { centre: true });
  }

  const zoomBy = (by) => cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  const acts = { in: () => zoomBy(1.35), out: () => zoomBy(1 / 1.35), fit, help: (button) => {
    const keys = byId("keys");
    keys.hidden = !keys.hidden;
    button.setAttribute("aria-expanded", String(!keys.hidden));
  } };
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => acts[button.dataset.do](button));

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
    if (arrows[event.key]) step(arrows[event.key]);
    else if (event.key === "Enter") { if (chosen >= 0) { go(chosen); (panel.querySelector("a") ?? panel).focus(); } else step("right"); }
    else if (event.key === "Escape") leave();
    else if (event.key === "+" || event.key === "=") acts.in();
    else if (event.key === "-") acts.out();
    else if (event.key === "0") fit();
    else if (event.key === "f") input.focus();
    else return;
    event.preventDefault();
  });
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") { canvas.focus(); event.preventDefault(); } });

  // --- the filter

  const graph = { nodes, reads, readers };
  let typed;
  function filter() {
    const text = input.value.trim();
    try {
      const found = text ? window.lakesqlSelector(text, graph) : null;
      input.removeAttribute("aria-invalid");
      said.textContent = found ? (found.size === 1 ? "1 node" : `${found.size} nodes`) : "";
      if (found && !found.size) { said.textContent = "matches nothing"; return; }
      shown = found ? [...found].sort((a, b) => a - b) : null;
      if (chosen >= 0 && shown && !shown.includes(chosen)) choose(-1);
      drawNodes();
    } catch (error) {
      input.setAttribute("aria-invalid", "true");
      said.textContent = error.message;
    }
  }
  input.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(filter, 200); });
  input.closest("form").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typed); filter(); canvas.focus(); });
  input.addEventListener("keydown", (event) => { if (event.key === "Escape") { input.value = ""; filter(); canvas.focus(); } });

  addEventListener("hashchange", follow);
  if (!nodes.length) panel.replaceChildren(make("p", "There is nothing to draw: the project has no models and no streams that could be read.", "empty"));
  follow();
})();
