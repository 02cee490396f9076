// The little that a server-rendered page cannot do: copy a notice, and jump by keys in the list.
"use strict";
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent.trim();
  navigator.clipboard.writeText(text).then(() => {
    document.getElementById("said").textContent = "Copied.";
  });
});
