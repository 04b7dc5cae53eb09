"use strict";
// Before the first paint: the colours that the reader chose, else those of the system.
(() => {
  const modes = ["auto", "light", "dark"];
  const said = { auto: "as the system", light: "light", dark: "dark" };
  const kept = () => { try { return localStorage.getItem("lakesql-theme"); } catch { return null; } };
  let mode = modes.includes(kept()) ? kept() : "auto";
  const show = () => {
    if (mode === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = mode;
    document.dispatchEvent(new Event("theme"));
  };
  show();
  addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    const label = () => button.setAttribute("aria-label", `Colours: ${said[mode]}`);
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      mode = modes[(modes.indexOf(mode) + 1) % modes.length];
      try { localStorage.setItem("lakesql-theme", mode); } catch { /* kept for this page alone */ }
      show();
      label();
    });
  });
})();
