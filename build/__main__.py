"""The build command: raw sources in, a package folder out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jfinteb.build.hub import write_package
from jfinteb.build.sources import PARSERS
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.cli import Parser, guarded, names
from jfinteb.loaders.errors import DataError, UnavailableError, UsageError
from jfinteb.loaders.schema import make_table
from jfinteb.loaders.task import Task, get_suite, get_task

if TYPE_CHECKING:
    import pyarrow as pa

_HELP = """\
Make a package folder (parquet files and a README) from raw sources.

Each card (dataset_cards/<task>.md) names its source files, relative to --source. Without --tasks,
every task whose files are there is built and the others are named. Tasks that the package already
holds stay in it.
"""
_EXAMPLES = """\
examples:
  python -m jfinteb.build --source DIR --out hub
  python -m jfinteb.build --source DIR --out hub --tasks chabsa,pfmt
  python -m jfinteb.build --source DIR --out retarfi/jfinteb   # for load_dataset in this folder
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = Parser(prog="python -m jfinteb.build", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("--source", type=Path, required=True, metavar="DIR", help="raw files")
    parser.add_argument("--tasks", type=names, metavar="A,B", help="only these tasks")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="package folder")
    args = parser.parse_args(argv)
    return guarded(lambda: build(args.source, args.tasks, args.out))


def build(source: Path, tasks: Sequence[str] | None, out: Path) -> int:
    """Build `tasks` (None: all that can be) from `source` into the package `out`."""
    console = Console(stderr=True)
    if not source.is_dir():
        raise UsageError(f"no folder {source}; expected the folder of raw sources")
    folder = SourceFolder(source)
    wanted = _available(folder, console) if tasks is None else [get_task(t) for t in tasks]
    tables = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("build", total=len(wanted))
        for task in wanted:
            progress.update(bar, description=task.name)
            tables[task.name] = _tables(task, folder)
            progress.advance(bar)
        progress.update(bar, description="write")
        manifest = write_package(out, tables)
    total = sum(split["rows"] for name in tables for split in manifest[name].values())
    print(f"{out}: wrote {total:,} rows of {len(tables)} tasks; it holds {', '.join(manifest)}")
    return 0


def _tables(task: Task, folder: SourceFolder) -> dict[str, pa.Table]:
    parser = task.source.parser
    try:
        rows = PARSERS[parser](task, folder)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{task.name}: the raw files are not what the parser {parser} expects "
            f"({type(error).__name__}: {error}); get revision {task.source.revision} from "
            f"{task.source.url}"
        ) from error
    except OSError as error:
        raise UnavailableError(f"{task.name}: cannot read {error.filename}: {error}") from error
    return {split: make_table(task, split, rows[split]) for split in task.splits}


def _available(folder: SourceFolder, console: Console) -> list[Task]:
    found = []
    for task in get_suite("all"):
        missing = folder.missing(task)
        if missing:
            what = f"left out: {task.name} (no {missing[0]}; from {task.source.url})"
            console.print(what, markup=False, highlight=False, soft_wrap=True)
        else:
            found.append(task)
    if not found:
        raise UnavailableError(f"{folder.path} holds the files of no task; see dataset_cards")
    return found


if __name__ == "__main__":
    sys.exit(main())
