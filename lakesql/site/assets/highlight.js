"use strict";
for (const code of document.querySelectorAll("pre code")) {
  if (code.textContent.length < 200000) hljs.highlightElement(code);
}
