"""The frame of the HTML page: own style and script, nothing from elsewhere, sealed by hashes."""

from __future__ import annotations

import base64
import hashlib

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #fff; --line: #d5dae0;
  --shade: #f3f5f7; --best: #d3efd9; --near: #edf7ef; --bar: #2f6f9f; --warn: #8a4b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b0; --paper: #15181c;
  --line: #353c44; --shade: #1f242a; --best: #1f5130; --near: #1b3324; --bar: #7db8e0;
  --warn: #f0b060; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem; max-width: 110rem; color: var(--ink);
  background: var(--paper); font: 15px/1.45 system-ui, "Noto Sans CJK JP", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .75rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
input { font: inherit; width: 22rem; max-width: 100%; padding: .4rem .6rem; color: inherit;
  background: var(--paper); border: 1px solid var(--soft); border-radius: .3rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .3rem; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--shade); vertical-align: bottom; }
.board thead th { padding: 0; white-space: normal; }
button { all: unset; box-sizing: border-box; display: block; width: 100%; padding: .35rem .6rem;
  cursor: pointer; } button:focus-visible { outline: 2px solid var(--bar); outline-offset: -2px; }
[aria-sort=ascending] button::after { content: " \\25B2"; }
[aria-sort=descending] button::after { content: " \\25BC"; }
.name { text-align: left; white-space: normal; overflow-wrap: anywhere; font-weight: 600; }
.board .name { min-width: 15rem; max-width: 24rem; position: sticky; left: 0;
  background: var(--paper); } .board thead .name { background: var(--shade); }
small { display: block; color: var(--soft); font-weight: 400; }
.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.best { background: var(--best); font-weight: 600; } .near { background: var(--near); }
.near::before { content: "≈\u00a0"; color: var(--soft); } a { color: var(--bar); }
.legend { display: inline-block; padding: 0 .4rem; font-weight: 400; }
svg { display: block; width: 100%; min-width: 4rem; height: 4px; background: var(--line);
  margin-top: .15rem; } svg rect { fill: var(--bar); }
.notes { margin: .5rem 0; padding-left: 1.1rem; color: var(--soft); } .warn { color: var(--warn); }
details { border: 1px solid var(--line); border-radius: .3rem; padding: .4rem .7rem;
  margin: .5rem 0; } summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
details .scroll { margin: .6rem 0; }
[hidden] { display: none; }
@media (max-width: 40rem) { body { padding: .7rem; font-size: 14px; }
  th, td, button { padding: .3rem .4rem; } .board .name { min-width: 8rem; max-width: 9rem; } }
@media print { @page { size: A4 landscape; margin: 10mm; } input, .screen { display: none; }
  body { padding: 0; max-width: none; font-size: 7px; --paper: #fff; --ink: #000; --soft: #444;
    --line: #bbb; --shade: #eee; --best: #d3efd9; --near: #edf7ef; --bar: #2f6f9f;
    --warn: #8a4b00; }
  .scroll { overflow: visible; border: 0; } th, td, .board thead button { padding: .2rem .2rem; }
  .board .name { min-width: 15em; position: static; } tr { break-inside: avoid; }
  .board small { font-size: 6px; } svg { min-width: 2rem; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

_SCRIPT = """
"use strict";
const value = (row, i) => {
  const cell = row.cells[i];
  return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value || NaN);
};
const compare = (a, b, down) => {
  if (typeof a === "string") return (down ? -1 : 1) * a.localeCompare(b);
  if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
  return down ? b - a : a - b;
};
for (const table of document.querySelectorAll("table.board")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => {
    const scores = i > 1;
    const now = head.getAttribute("aria-sort");
    const down = now === null ? scores : now === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(value(a, i), value(b, i), down));
    table.tBodies[0].append(...rows);
  }));
}
const field = document.querySelector("input");
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("[data-run]")) {
    const text = row.dataset.run.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) document.getElementById(link.hash.slice(1)).open = true;
});
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
"""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src '{style_hash}'; script-src '{script_hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>JFinTEB results</title>
<style>{style}</style>
</head>
<body>
<h1>JFinTEB results</h1>
<p class="screen"><input type="search" placeholder="Filter runs: model, setting, …" \
aria-label="Filter runs"> Click a heading to sort, a run to see all of it.</p>
{body}
<script>{script}</script>
</body>
</html>
"""


def page(body: str) -> str:
    """A whole page. Its policy lets run no script but ours, should one get into `body`."""
    return _PAGE.format(
        style=_STYLE,
        style_hash=_hash(_STYLE),
        script=_SCRIPT,
        script_hash=_hash(_SCRIPT),
        body=body,
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
