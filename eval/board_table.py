"""Boards for the terminal: in one table where it is wide enough, else in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from jfinteb.eval.leaderboard import Board, Row, bounds
from jfinteb.loaders.task import Kind, get_task

__all__ = ["MISSING", "board_tables", "number", "print_boards"]

MISSING = "–"
_HEADING = 11  # columns of a heading before it goes on below
_GAP = 2
_SEEDS = "*: lowest and highest score over seeds"
_SHORT = {Kind.CLASSIFICATION: "classif."}


def number(value: float | None) -> str:
    """A score, or a dash."""
    return MISSING if value is None else f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class _Column:
    group: str
    heading: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))


def print_boards(console: Console, boards: Sequence[Board], intervals: bool | None) -> None:
    """Every board under its title, with what to know below it.

    Args:
        console: to print to.
        boards: in order.
        intervals: whether bounds stand under scores; None: where all fits in one table with them.
    """
    for board in boards:
        if board.title:
            console.print(board.title, style="yellow" if board.sample else "", markup=False)
        starred = False
        for table in board_tables(board, console.width, intervals):
            console.print(table)
            console.print()
            cells = (str(cell) for column in table.columns[2:] for cell in column.cells)
            starred = starred or any(cell.endswith("*") for cell in cells)
        for line in (*board.remarks, *([_SEEDS] if starred else [])):
            console.print(line, markup=False, soft_wrap=True)
        console.print()


def board_tables(board: Board, width: int, intervals: bool | None) -> list[Table]:
    """A board in tables of that width, all with the same rows; see `print_boards`."""
    lines = [line for row in board.rows for line in str(row.label).split("\n")]
    longest = max(map(cell_len, lines), default=0)
    label = max(min(longest, max(24, width // 3)), len("run"))
    left = width - label - len(str(len(board.rows))) - 2 * _GAP
    if intervals is None:
        intervals = len(_parts(_columns(board, bounded=True), left)) == 1
    parts = _parts(_columns(board, bounded=intervals), left)
    return [_table(board.rows, part, label, whole=i == 0) for i, part in enumerate(parts)]


def _columns(board: Board, *, bounded: bool) -> list[_Column]:
    """Means, then the tasks by kind."""
    rows = board.rows
    found = []
    if board.suite is not None:
        found.append(_Column("", "average", tuple(number(row.means["all"]) for row in rows)))
    if board.common:
        heading = f"common\n({len(board.common)} tasks)"
        found.append(_Column("", heading, tuple(number(row.common) for row in rows)))
    for kind in board.kinds:
        heading = f"{_SHORT.get(kind, kind.value)}\nmean"
        means = tuple(number(row.means[kind.value]) for row in rows)
        found.append(_Column("", heading, means))
    scores = [_scores(board, row, bounded=bounded) for row in rows]
    for name, cells in zip(board.tasks, zip(*scores, strict=True), strict=True):
        found.append(_Column(get_task(name).kind.value, _heading(name), cells))
    return found


def _scores(board: Board, row: Row, *, bounded: bool) -> tuple[str, ...]:
    below = _bounds(board, row) if bounded else [""] * len(board.tasks)
    results = (row.run.results.get(name) for name in board.tasks)
    scores = (number(None if result is None else result.score) for result in results)
    return tuple(f"{score}\n{b}".rstrip() for score, b in zip(scores, below, strict=True))


def _bounds(board: Board, row: Row) -> list[str]:
    held = (row.run.results.get(name) for name in board.tasks)
    return ["" if r is None else str(bounds(r) or MISSING) for r in held]


def _heading(name: str) -> str:
    """A task's name, going on below at a "_" where it is long."""
    lines = [""]
    for part in name.replace("_", "_ ").split():
        if lines[-1] and len(lines[-1] + part) > _HEADING:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _parts(columns: Sequence[_Column], left: int) -> list[list[_Column]]:
    """Columns by table; a kind that would fit in a table of its own is not torn apart."""
    parts: list[list[_Column]] = [[]]
    room = left
    for i, column in enumerate(columns):
        cost = column.width + _GAP
        first = i == 0 or columns[i - 1].group != column.group
        whole = sum(c.width + _GAP for c in columns if c.group == column.group)
        if parts[-1] and (cost > room or (first and room < whole <= left)):
            parts.append([])
            room = left
        parts[-1].append(column)
        room -= cost
    return parts


def _table(rows: Sequence[Row], columns: Sequence[_Column], label: int, *, whole: bool) -> Table:
    """One table; labels are whole in the first, and the model alone in those after it."""
    names = [str(row.label) if whole else row.label.model for row in rows]
    tall = any("\n" in text for text in (*names, *(c for col in columns for c in col.cells)))
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        leading=1 if tall and len(rows) > 1 else 0,
    )
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("run", width=label, overflow="fold")
    for column in columns:
        table.add_column(escape(column.heading), justify="right", no_wrap=True)
    for i, name in enumerate(names):
        model, *below = name.split("\n")
        text = Text(model).append("".join(f"\n{line}" for line in below), style="dim")
        table.add_row(str(i + 1), text, *(column.cells[i] for column in columns))
    return table
