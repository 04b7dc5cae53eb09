"use strict";
// The words of `lakesql --select` over the nodes of the site: fqn, file, path, tag, stream, resource_type and config.
window.lakesqlSelector = (() => {
  const METHODS = ["fqn", "file", "path", "tag", "stream", "resource_type", "config"];

  const glob = (pattern) => {
    let made = "";
    for (let at = 0; at < pattern.length; at++) {
      const c = pattern[at];
      const end = c === "[" ? pattern.indexOf("]", at + 2) : -1;
      if (c === "*") made += ".*";
      else if (c === "?") made += ".";
      else if (end > 0) {
        const inner = pattern.slice(at + 1, end).replace(/\\/g, "\\\\").replace(/^!/, "^");
        made += `[${inner}]`;
        at = end;
      } else made += c.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    }
    return new RegExp(`^${made}$`, "s");
  };
  const isGlob = (name) => /[*?[\]]/.test(name);

  function matchesNames(fqn, value) {
    const names = fqn.join(".").split("."), wanted = value.split(".");
    if (wanted.length > names.length) return false;
    const found = wanted.findIndex(isGlob), literal = found < 0 ? wanted.length : found;
    if (wanted.slice(0, literal).some((name, at) => name !== names[at])) return false;
    return literal === wanted.length || glob(wanted.slice(literal).join(".")).test(names.slice(literal).join("."));
  }

  function matchesParts(parts, pattern) {
    if (!pattern.length) return !parts.length;
    if (pattern[0] === "**") return parts.concat([""]).some((_, skipped) => matchesParts(parts.slice(skipped), pattern.slice(1)));
    return parts.length > 0 && glob(pattern[0]).test(parts[0]) && matchesParts(parts.slice(1), pattern.slice(1));
  }

  function matchesPath(path, value) {
    const pattern = value.split("/").filter((part) => part && part !== ".");
    const parts = path.split("/");
    const isFolder = pattern.at(-1) === "**";
    for (let length = parts.length - (isFolder ? 1 : 0); length >= 0; length--) {
      if (matchesParts(parts.slice(0, length), pattern)) return true;
    }
    return false;
  }

  function* valuesAt(value, names) {
    if (!names.length) { yield value; return; }
    if (!value || typeof value !== "object" || Array.isArray(value)) return;
    for (let count = 1; count <= names.length; count++) {
      const name = names.slice(0, count).join(".");
      if (Object.hasOwn(value, name)) yield* valuesAt(value[name], names.slice(count));
    }
  }

  const isValue = (value, text) => typeof value === "boolean" ? text.toLowerCase() === String(value)
    : (typeof value === "string" || typeof value === "number") && text === String(value);

  function matches(node, method, key, value) {
    switch (method) {
      case "fqn": return node.type !== "stream" && node.type !== "table"
        && (node.name === value || matchesNames(node.fqn, value) || matchesNames(node.fqn.slice(1), value));
      case "file": {
        const name = node.path.split("/").at(-1);
        return !!name && (glob(value).test(name) || glob(value).test(name.replace(/(.)\.[^.]*$/, "$1")));
      }
      case "path": return !!node.path && matchesPath(node.path, value);
      case "tag": return node.tags.some((tag) => glob(value).test(tag));
      case "stream": return node.type === "stream" && glob(value).test(node.name);
      case "resource_type": return node.type === value;
      default: return [...valuesAt(node.config, key.split("."))]
        .some((found) => (Array.isArray(found) ? found : [found]).some((each) => isValue(each, value)));
    }
  }

  function reach(beside, from, depth) {
    const found = new Set();
    let edge = new Set(from);
    for (let step = 0; edge.size && (depth === null || step < depth); step++) {
      const next = new Set();
      for (const each of edge) for (const other of beside[each]) if (!found.has(other)) { found.add(other); next.add(other); }
      edge = next;
    }
    return found;
  }

  function criterion(text, graph) {
    const parts = /^(?<closed>@)?(?:(?<up>\d*)\+)?(?<body>.*?)(?:\+(?<down>\d*))?$/s.exec(text).groups;
    const { body } = parts;
    if (!body) throw new Error(`'${text}' names nothing.`);
    const colon = body.indexOf(":"), prefix = body.slice(0, colon);
    let method = body.includes("/") ? "path" : body.toLowerCase().endsWith(".sql") ? "file" : "fqn", key = "", value = body;
    if (colon >= 0 && !prefix.includes("/")) {
      [method, ...key] = prefix.split(".");
      key = key.join(".");
      value = body.slice(colon + 1);
    }
    if (!METHODS.includes(method)) throw new Error(`No method '${method}' here: ${METHODS.join(", ")}.`);
    if (!value) throw new Error(`'${text}' names nothing.`);
    const named = graph.nodes.flatMap((node, at) => matches(node, method, key, value) ? [at] : []);
    const steps = (digits) => digits === undefined ? 0 : digits === "" ? null : Number(digits);
    const found = new Set([...named, ...reach(graph.reads, named, steps(parts.up)), ...reach(graph.readers, named, steps(parts.down))]);
    if (parts.closed) {
      const family = new Set([...named, ...reach(graph.readers, named, null)]);
      for (const each of [...family, ...reach(graph.reads, family, null)]) found.add(each);
    }
    return found;
  }

  // The numbers of the nodes that the words mean. Throws an Error with a sentence for words that mean nothing.
  return (text, graph) => {
    const found = new Set();
    for (const word of text.split(/\s+/).filter(Boolean)) {
      const parts = word.split(",").map((part) => criterion(part, graph));
      for (const each of parts[0]) if (parts.every((part) => part.has(each))) found.add(each);
    }
    return found;
  };
})();
