"""A report of results as one HTML file without scripts: the tables, and what each run was."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from jfinteb.eval.result import Result
from jfinteb.eval.shown import notes_of
from jfinteb.eval.table import print_results, run_table
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import get_task

__all__ = ["html"]

_WIDTH = 120  # columns
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>JFinTEB results</title>
<style>
body {{ font-family: sans-serif; margin: 2rem; color: #222; background: #fff; }}
pre {{ font-family: ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK JP", monospace; }}
</style>
</head>
<body>
<h1>JFinTEB results</h1>
<pre>{code}</pre>
</body>
</html>
"""


def html(results: Sequence[Result]) -> str:
    """The page: a comparison of all runs, then every run with its settings, intervals and notes."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), highlight=False)
    print_results(console, results)
    runs: dict[tuple[bool, str, str], dict[str, Result]] = {}
    for result in results:
        run = (result.is_sample, result.model, result.spec_digest)
        runs.setdefault(run, {})[result.task] = result
    for (sample, model, digest), found in sorted(runs.items()):
        spec = next(iter(found.values())).spec
        console.print(f"\n[bold]{escape(model)}[/] {digest[:12]}")
        if sample:
            console.print(f"[red]{NOTICE}[/]")
        for name, value in spec.items():
            console.print(f"  {name}: {value}", markup=False)
        tasks = [get_task(name) for name in found]
        console.print(run_table(tasks, found, {}, whole=False))
        for note in notes_of(found):
            console.print(f"  note: {note}", markup=False)
    return console.export_html(
        theme=DEFAULT_TERMINAL_THEME, code_format=_PAGE, inline_styles=True, clear=True
    )
