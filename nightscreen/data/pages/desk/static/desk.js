// The little that a server-rendered page cannot do: copy a notice or a link, name a typed amount on its button,
// begin with the facets folded where the screen is narrow, and
// let cases be worked through by keys: n next, t take, a approve.
"use strict";
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const node = document.getElementById(button.dataset.copy);
  const text = node.href || node.textContent.trim();
  navigator.clipboard.writeText(text).then(() => {
    document.getElementById("said").textContent = "Copied.";
  });
});
function nameTheAmount(field) {
  const button = field.form && field.form.querySelector("[data-most]");
  if (field.name !== "max_spend" || !button) return;
  const typed = field.value.replace(/[,₦\s]/g, "");
  const most = Number(button.dataset.most);
  const naira = typed === "" ? most : Number(typed);
  button.disabled = !(naira > 0 && naira <= most);
  if (button.disabled) return;
  const kobo = Number.isInteger(naira) ? 0 : 2;
  button.textContent = "Spend up to ₦" +
    naira.toLocaleString("en-NG", {minimumFractionDigits: kobo, maximumFractionDigits: kobo});
}
document.addEventListener("input", (event) => nameTheAmount(event.target));
// An amount may have been typed before this script was loaded, or kept by the browser.
for (const field of document.querySelectorAll("input[name=max_spend]")) nameTheAmount(field);
for (const facets of document.querySelectorAll("details.facets")) {
  if (window.matchMedia("(max-width: 56rem)").matches) facets.open = false;
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  const links = [...document.querySelectorAll("a[data-row]")];
  const row = event.target.closest("tr");
  const at = links.findIndex((link) => row && row.contains(link));
  if (event.key === "n" && links.length) links[(at + 1) % links.length].focus();
  else if (event.key === "a" && at >= 0) window.location.href = links[at].href + "&decision=approve";
  else {
    const found = (links.length ? row || document.createElement("p") : document).querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found) return;
    if (found.dataset.value) { found.value = found.dataset.value; found.focus(); } else found.click();
  }
  event.preventDefault();
});
