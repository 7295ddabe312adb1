"""A report of results as one HTML file: the boards of `jfinteb show`, and all of every run."""

from __future__ import annotations

import html as markup
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jfinteb.eval.board_table import MISSING, number
from jfinteb.eval.leaderboard import Board, Bounds, Row, bounds
from jfinteb.eval.page import page
from jfinteb.eval.result import Result
from jfinteb.eval.runs import plain
from jfinteb.eval.shown import notes_of
from jfinteb.loaders.task import get_task

__all__ = ["html"]

_LEGEND = """\
<p><span class="legend best">best</span> <span class="legend near">its range meets that of the best:
not told apart</span> <small>Under a score: 95 % interval, or with * lowest and highest score over
seeds; the bar shows it between the lowest and the highest bound of its column. Nothing is marked in
columns of means, which have no intervals, nor where rows or protocol differ.</small></p>
"""


def html(boards: Sequence[Board]) -> str:
    """The page: every board as a table to sort and filter, then each run in full."""
    parts = [_LEGEND]
    for place, board in enumerate(boards, 1):
        parts += _board(board, place)
    return page("\n".join(parts))


def _escape(text: object) -> str:
    return markup.escape(plain(str(text)))


def _board(board: Board, place: int) -> list[str]:
    title = board.title or (f"Suite {board.suite}" if board.suite else "Chosen tasks")
    style = ' class="warn"' if board.sample else ""
    heads = "".join(_head(*head) for head in _heads(board))
    columns = [board.marks(task) for task in board.tasks]
    scales = [_scale(board, task) for task in board.tasks]
    rows = [
        _row(board, row, f"b{place}r{i + 1}", i, columns, scales)
        for i, row in enumerate(board.rows)
    ]
    notes = "".join(f"<li>{_escape(line)}</li>" for line in board.remarks)
    return [
        f"<section><h2{style}>{_escape(title)}</h2>",
        f'<div class="scroll"><table class="board"><thead><tr>{heads}</tr></thead>',
        f"<tbody>{''.join(rows)}</tbody></table></div>",
        f'<ul class="notes">{notes}</ul>',
        *(_details(row, f"b{place}r{i}", i) for i, row in enumerate(board.rows, 1)),
        "</section>",
    ]


def _heads(board: Board) -> list[tuple[str, str]]:
    """Headings, and what stands below them."""
    found = [("#", ""), ("run", "")]
    if board.suite is not None:
        found.append(("average", f"{len(board.members)} tasks"))
    if board.common:
        found.append(("common", f"{len(board.common)} tasks"))
    found += [(str(kind), "mean") for kind in board.kinds]
    return found + [(task, get_task(task).metric) for task in board.tasks]


def _head(name: str, below: str) -> str:
    kind = ' class="name"' if name == "run" else ""
    shown = _escape(name).replace("_", "_<wbr>")
    return f'<th scope="col"{kind}><button>{shown}<small>{_escape(below)}</small></button></th>'


def _scale(board: Board, task: str) -> tuple[float, float]:
    """The lowest and the highest bound of a column."""
    results = [row.run.results[task] for row in board.rows if task in row.run.results]
    found = [bound for result in results if (bound := bounds(result)) is not None]
    return min((b.low for b in found), default=0.0), max((b.high for b in found), default=1.0)


def _row(
    board: Board,
    row: Row,
    anchor: str,
    index: int,
    marks: Sequence[Mapping[int, str]],
    scales: Sequence[tuple[float, float]],
) -> str:
    settings = ", ".join(row.label.settings)
    cells = [
        f'<td data-value="{index + 1}">{index + 1}</td>',
        f'<th scope="row" class="name"><a href="#{anchor}">{_escape(row.label.model)}</a>'
        f"<small>{_escape(settings)}</small><small>{_escape(row.label.place)}</small></th>",
    ]
    if board.suite is not None:
        cells.append(_mean(row.means["all"]))
    if board.common:
        cells.append(_mean(row.common))
    cells += [_mean(row.means.get(kind.value)) for kind in board.kinds]
    for task, mark, scale in zip(board.tasks, marks, scales, strict=True):
        cells.append(_cell(row.run.results.get(task), mark.get(index, ""), scale))
    return f'<tr data-run="{_escape(_searched(row))}">{"".join(cells)}</tr>'


def _searched(row: Row) -> str:
    return str(row.label).replace("\n", " ")


def _mean(value: float | None) -> str:
    return f'<td data-value="{"" if value is None else repr(value)}">{number(value)}</td>'


def _cell(result: Result | None, mark: str, scale: tuple[float, float]) -> str:
    if result is None:
        return f'<td data-value="" title="not run">{MISSING}</td>'
    found = bounds(result)
    below = f"<small>{found}</small>{_bar(found, scale)}" if found is not None else ""
    told = {"best": "best; ", "near": "not told apart from the best; "}.get(mark, "")
    return (
        f'<td data-value="{result.score!r}" class="{mark}" '
        f'title="{told}{_escape(result.outcome["chosen"])}">{number(result.score)}{below}</td>'
    )


def _bar(found: Bounds, scale: tuple[float, float]) -> str:
    low, high = scale
    width = (high - low) or 1.0
    start, end = (100 * (bound - low) / width for bound in (found.low, found.high))
    return (
        '<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="{start:.1f}" width="{max(end - start, 1):.1f}" height="4"/></svg>'
    )


def _details(row: Row, anchor: str, place: int) -> str:
    """All of a run: scores with what was chosen, the spec, versions, notes."""
    first, results = row.run.first, row.run.results
    facts = {
        **{f"spec: {name}": value for name, value in first.spec.items()},
        "spec digest": first.spec_digest,
        "folder": row.run.folder,
        **_shared("made with", {t: r.environment for t, r in results.items()}),
        **_shared("protocol", {t: {**r.protocol, "seed": r.seed} for t, r in results.items()}),
        **_shared("data", {t: {"from": r.data["origin"]} for t, r in results.items()}),
    }
    lines = ([name, _told(value)] for name, value in facts.items())
    notes = "".join(f"<li>{_escape(note)}</li>" for note in notes_of(results))
    heads = ("task", "score", "range", "chosen on validation", "ceiling", "truncated", "finished")
    return (
        f'<details id="{anchor}" data-run="{_escape(_searched(row))}">'
        f"<summary>{place}. {_escape(_searched(row))}</summary>"
        f'<ul class="notes">{notes}</ul>'
        f"{_table(heads, (_scored(task, result) for task, result in results.items()))}"
        f"{_table(('', ''), lines)}</details>"
    )


def _scored(task: str, result: Result) -> list[str]:
    ceiling = result.outcome.get("ceiling")
    return [
        task,
        number(result.score),
        str(bounds(result) or MISSING),
        result.outcome["chosen"],
        "" if ceiling is None else number(ceiling),
        f"{result.counts.get('truncated', 0):,}",
        result.finished,
    ]


def _shared(words: str, found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """One line where all tasks agree, else a line for each set of tasks that does."""
    groups: dict[str, list[str]] = {}
    for task, values in found.items():
        text = ", ".join(f"{name} {value}" for name, value in values.items())
        groups.setdefault(text, []).append(task)
    if len(groups) == 1:
        return {words: next(iter(groups))}
    return {f"{words} ({', '.join(tasks)})": text for text, tasks in groups.items()}


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col" class="text">{_escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f'<td class="text">{_escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'
