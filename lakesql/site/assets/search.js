"use strict";
(() => {
  const root = document.documentElement.dataset.root;
  const box = document.querySelector(".find");
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  let index, pages, active = -1, loading;
  box.hidden = false;

  const load = (source) => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + source;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  // Made when somebody searches: most who open a page do not.
  const ready = () => loading ??= (async () => {
    if (!window.lakesqlSite) await load("data.js");
    await load("assets/vendor/minisearch.js");
    const { nodes, conditions } = window.lakesqlSite;
    pages = [];
    for (const node of nodes) {
      pages.push({ id: pages.length, label: node.name, kind: node.type, href: node.href, about: node.about, owner: node.owner, rank: 3 });
      for (const [column, type] of node.columns) {
        const href = `${node.href}#${anchor(column)}`;
        pages.push({ id: pages.length, label: column, of: node.name, kind: "column", href, about: type, rank: 1 });
      }
    }
    for (const [name, meaning] of conditions) {
      pages.push({ id: pages.length, label: name, kind: "error", href: `conditions/${name}.html`, about: meaning, rank: 1.5 });
    }
    // A name is found by its start, and by that of each of its parts.
    const words = (text) => text.toLowerCase().split(/\s+/).flatMap((word) => [...new Set([word, ...word.split(/[^\p{L}\p{N}]+/u)])]).filter(Boolean);
    index = new MiniSearch({ fields: ["label", "of", "about", "owner"], tokenize: words, processTerm: (term) => term });
    index.addAll(pages);
  })();

  function anchor(name) {
    return "column-" + [...name].map((c) => /[\p{L}\p{N}_]/u.test(c) ? c : `-${c.codePointAt(0).toString(16)}-`).join("");
  }

  function show(found) {
    active = found.length ? 0 : -1;
    list.replaceChildren(...found.map((page, number) => {
      const item = document.createElement("li");
      item.id = `found-${number}`;
      item.role = "option";
      item.dataset.href = root + page.href;
      const kind = document.createElement("span");
      kind.className = "how";
      kind.textContent = page.kind;
      const label = document.createElement("b");
      label.textContent = page.of ? `${page.of}.${page.label}` : page.label;
      const about = document.createElement("span");
      about.className = "quiet";
      about.textContent = page.about ?? "";
      item.append(label, kind, about);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); go(item); });
      return item;
    }));
    if (!found.length && input.value.trim()) {
      const item = document.createElement("li");
      item.role = "option";
      item.ariaDisabled = "true";
      item.className = "quiet";
      item.textContent = "Nothing is called that.";
      list.append(item);
    }
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  }

  function mark() {
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === active)));
    const item = active < 0 ? null : list.children[active];
    if (item) { input.setAttribute("aria-activedescendant", item.id); item.scrollIntoView({ block: "nearest" }); }
    else input.removeAttribute("aria-activedescendant");
  }

  function go(item) {
    if (item?.dataset.href) location.href = item.dataset.href;
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  async function search() {
    await ready();
    const boostDocument = (id) => pages[id].rank;
    const text = input.value.trim();
    const found = text ? index.search(text.replace(/\.(?=\S)/g, " "), {
      prefix: true, fuzzy: (term) => term.length > 3 ? 0.2 : false, boost: { label: 3 }, combineWith: "AND", boostDocument, tokenize: (words) => words.toLowerCase().split(/\s+/),
    }) : [];
    show(found.slice(0, 12).map((each) => pages[each.id]));
  }

  input.addEventListener("focus", ready);
  input.addEventListener("input", search);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const count = list.querySelectorAll("[data-href]").length;
    if (event.key === "ArrowDown" && count) active = (active + 1) % count;
    else if (event.key === "ArrowUp" && count) active = (active - 1 + count) % count;
    else if (event.key === "Enter") { go(list.children[active]); return; }
    else if (event.key === "Escape") { input.value = ""; close(); input.blur(); return; }
    else return;
    event.preventDefault();
    mark();
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
})();
