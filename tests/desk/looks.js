// What a person with a screen reader, weak eyes or no mouse would stumble over on a page, in words.
() => {
  const found = [];
  const seen = (node) => {
    const box = node.getBoundingClientRect();
    const style = getComputedStyle(node);
    return box.width > 1 && box.height > 1 && style.visibility !== "hidden" && style.display !== "none";
  };
  const named = (node) => {
    const by = (node.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const text = by.map((id) => (document.getElementById(id) || {}).textContent || "").join(" ");
    const labels = [...(node.labels || [])].map((label) => label.textContent).join(" ");
    return (text || node.getAttribute("aria-label") || labels || node.textContent || node.title || "").trim();
  };
  const what = (node) => `${node.tagName.toLowerCase()} ${(node.id || node.className || node.textContent || "").toString().trim().slice(0, 40)}`;
  for (const node of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, iframe, meter, progress, svg[role=img]"))
    if (!named(node)) found.push(`no name: ${what(node)}`);
  for (const node of document.querySelectorAll("section, [role=region], [role=group], nav"))
    if (!named(node)) found.push(`no name: ${what(node)}`);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of ids.filter((id, at) => ids.indexOf(id) !== at)) found.push(`id twice: ${id}`);
  for (const node of document.querySelectorAll("[aria-labelledby], label[for]"))
    for (const id of (node.getAttribute("aria-labelledby") || node.htmlFor).split(/\s+/))
      if (!document.getElementById(id)) found.push(`names nothing: ${id}`);
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  let level = 1;
  for (const node of document.querySelectorAll("h1, h2, h3, h4")) {
    const now = Number(node.tagName[1]);
    if (now > level + 1) found.push(`heading skips: ${what(node)}`);
    level = now;
  }
  for (const [name, number] of [["main", 1], ["header", 1]])
    if (document.querySelectorAll(`body > ${name}`).length !== number) found.push(`no one ${name}`);
  for (const table of document.querySelectorAll("table"))
    if (!table.querySelector("th")) found.push("a table without headings");
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = channels(getComputedStyle(node).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || told.has(node) || !seen(node) || node.closest("[disabled], option")) continue;
    told.add(node);
    const style = getComputedStyle(node);
    const [dim, bright] = [light(channels(style.color)), light(behind(node))].sort((a, b) => a - b);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    const ratio = (bright + 0.05) / (dim + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(1)}: ${what(node)}`);
  }
  for (const node of document.querySelectorAll("button, select, input:not([type=hidden]):not([type=checkbox]), a.button"))
    if (seen(node) && node.getBoundingClientRect().height < 24) found.push(`too small to hit: ${what(node)}`);
  for (const node of document.querySelectorAll("td input:not([type=hidden])"))
    if (seen(node) && node.scrollWidth > node.clientWidth) found.push(`value cut off: ${node.value}`);
  for (const node of document.querySelectorAll(".word"))
    if (parseFloat(getComputedStyle(node).borderLeftWidth)) found.push(`a badge like a paragraph: ${what(node)}`);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) found.push(`wider than the screen by ${wide}`);
  return found;
}
