// What Zensical adds to a page, for those who hear it or walk it by keyboard: each bar of a block of code has a name of
// its own, and a table that is wider than the page is moved with the arrow keys.

const name_bars = () =>
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((bar) => {
    bar.setAttribute("aria-label", `Code ${document.querySelectorAll(".md-code__nav[aria-label]").length + 1}`);
  });

const reach_tables = () =>
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table, at) => {
    table.setAttribute("tabindex", "0");
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", `Table ${at + 1}`);
  });

new MutationObserver(() => {
  name_bars();
  reach_tables();
}).observe(document.body, { childList: true, subtree: true });
name_bars();
reach_tables();
