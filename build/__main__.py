"""The build command: raw sources in, a package folder out."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jfinteb.build.fetch import cache_folder, download_progress, fetch_source
from jfinteb.build.hub import check_out, write_package
from jfinteb.build.recipe import tables_of, unknown_digests
from jfinteb.build.sources.dumps import dropped
from jfinteb.build.sources.ews import FEWEST_ROWS
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.cli import Parser, guarded, names
from jfinteb.loaders.errors import UnavailableError, UsageError
from jfinteb.loaders.manifest import split_entries
from jfinteb.loaders.task import Task, get_suite, get_task
from jfinteb.loaders.variants import fresh_name, is_revision

_HELP = """\
Make a package folder (parquet files and a README) from raw sources.

Each card (dataset_cards/<task>.md) names its source files, relative to --source. Without --tasks,
every task of the suite whose files are there is built and the others are named. Tasks that the
package already holds stay in it.
"""
_EXAMPLES = """\
examples:
  python -m jfinteb.build --source DIR --out hub
  python -m jfinteb.build --source DIR --out hub --tasks chabsa,pfmt
  python -m jfinteb.build --source DIR --out retarfi/jfinteb   # for load_dataset in this folder
  python -m jfinteb.build --fetch --out hub
  python -m jfinteb.build --source DIR --out hub --suite jfinteb-clean
  python -m jfinteb.build --source DIR --out hub --tasks wikipedia_retrieval_dump --report
  python -m jfinteb.build --source DIR --out hub --tasks ews_domain --since 2024-07 \\
      --rows-per-label 200
  python -m jfinteb.build --fetch --out hub --tasks ews_domain --since 2025-06 \\
      --rows-per-label 200 --revision 2025.11.0
"""


_MB = 10**6


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = Parser(prog="python -m jfinteb.build", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("--source", type=_folder, metavar="DIR", help="folder of raw files")
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="download what the folder lacks; without --source, into the user's cache",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="leave out tasks whose rows may not be redistributed",
    )
    parser.add_argument("--suite", default="all", metavar="NAME", help="default: all")
    parser.add_argument("--tasks", type=names, metavar="A,B", help="only these tasks")
    parser.add_argument("--out", type=_folder, required=True, metavar="DIR", help="package folder")
    parser.add_argument(
        "--since",
        type=_month,
        metavar="YYYY-MM",
        help="Economy Watchers Survey: only months from then on, as variants <task>_since_YYYYMM",
    )
    parser.add_argument("--rows-per-label", type=int, metavar="N", help="with --since: rows drawn")
    parser.add_argument(
        "--revision",
        metavar="REV",
        help="with --since: another release of the survey, e.g. 2025.11.0, fetched or from "
        "DIR/ews/REV/{current,future}/{train,validation,test}.jsonl; variants ..._r2025_11_0",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="list all pages of a dump that were left out, and why (tasks <task>_dump)",
    )
    args = parser.parse_args(argv)
    return guarded(lambda: _build(args))


def _build(args: argparse.Namespace) -> int:
    run = partial(
        build,
        tasks=_wanted(args),
        out=args.out,
        suite=args.suite,
        public=args.public,
        report=args.report,
    )
    if not args.fetch:
        if args.source is None:
            raise UsageError("give --source with the folder of raw files, or --fetch to download")
        return run(args.source)
    with download_progress(Console(stderr=True)) as progress:
        source = args.source or cache_folder()
        source.mkdir(parents=True, exist_ok=True)
        return run(source, fetch=partial(fetch_source, progress=progress))


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()  # a shell leaves the ~ of `--out=~/hub` as it is
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}: {error}") from None


def _month(text: str) -> str:
    match = re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected YYYY-MM")
    return match[1] + match[2]


def _wanted(args: argparse.Namespace) -> Sequence[str] | None:
    """Names of the tasks asked for; with --since and what goes with it, of their variants."""
    tasks: Sequence[str] | None = args.tasks
    revision: str | None = args.revision
    if revision is not None and not is_revision(revision):
        raise UsageError(
            f"found --revision {revision!r}, expected a release such as 2025.11.0 or a whole commit"
        )
    if not tasks and (args.since or revision):
        option = "--since" if args.since else "--revision"
        raise UsageError(f"{option} wants --tasks with tasks of the Economy Watchers Survey")
    if args.since is None:
        if args.rows_per_label is not None:
            raise UsageError("--rows-per-label goes with --since")
        for task in map(get_task, tasks or ()):
            if revision not in (None, task.source.revision):
                fresh_name(task, "")  # or there is no task to vary
                raise UsageError(
                    f"--revision {revision} goes with --since: the rows of {task.name} are those "
                    f"of {task.source.revision}"
                )
        return tasks
    if args.rows_per_label is not None and args.rows_per_label < FEWEST_ROWS:
        raise UsageError(
            f"--rows-per-label is {args.rows_per_label}, expected {FEWEST_ROWS} or more"
        )
    return [
        fresh_name(get_task(name), args.since, args.rows_per_label, revision)
        for name in tasks or ()
    ]


def build(
    source: Path,
    tasks: Sequence[str] | None,
    out: Path,
    suite: str = "all",
    *,
    public: bool = False,
    report: bool = False,
    fetch: Callable[[str, Path, str | None], object] | None = None,
) -> int:
    """Build `tasks` (None: all of the suite that can be) from `source` into the package `out`.

    Args:
        source: folder of raw files.
        tasks: names, also of variants.
        out: package folder.
        suite: what is built where `tasks` is None.
        public: leave out tasks whose rows may not be redistributed.
        report: print what was left out of dumps.
        fetch: gets a file that the folder lacks; see `SourceFolder`.

    Returns:
        The exit code, 0.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not source.is_dir():
        raise UsageError(f"no folder {source}; expected the folder of raw sources")
    check_out(out)
    folder = SourceFolder(source, fetch)
    if tasks is None:
        wanted = _available(folder, get_suite(suite), console)
    else:
        wanted = [get_task(name) for name in tasks]
    if public:
        for task in (task for task in wanted if not task.redistributable):
            console.print(
                f"left out: {task.name} (its rows may not be redistributed)", markup=False
            )
        wanted = [task for task in wanted if task.redistributable]
    tables, raw = {}, {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        folder = replace(folder, watch=partial(_watch, progress))
        bar = progress.add_task("build", total=len(wanted))
        for task in wanted:
            progress.update(bar, description=task.name)
            tables[task.name], changes = tables_of(task, folder)
            for reason, count in sorted(changes.items()):
                console.print(f"{task.name}: {reason}: {count}", markup=False)
            if report:
                left_out = dropped(task, folder) or "no dump, so no pages to report"
                console.print(f"{task.name}: {left_out}", markup=False)
            if digests := unknown_digests(task, folder):
                raw[task.name] = digests
                console.print(_recorded(task, digests), markup=False)
            progress.advance(bar)
        progress.update(bar, description="write")
        manifest = write_package(out, tables, raw)
    rows = (split["rows"] for name in tables for split in split_entries(manifest[name]).values())
    total = sum(rows)
    print(f"{out}: wrote {total:,} rows of {len(tables)} tasks; it holds {', '.join(manifest)}")
    return 0


def _recorded(task: Task, digests: Mapping[str, str]) -> str:
    """What to say where the manifest tells of raw files that the card has no checksum of."""
    of = f" of revision {task.source.revision}" if task.recipe and task.recipe.revision else ""
    files = ", ".join(f"{path} {digest[:12]}…" for path, digest in digests.items())
    return (
        f"{task.name}: no card knows the files{of}; their SHA-256 stand in the package's manifest: "
        f"{files}"
    )


def _watch(progress: Progress, name: str) -> Callable[[int, int], None]:
    """A bar for a file that is parsed; what it gives is called with bytes read and all bytes."""
    bar = progress.add_task(f"{name} (MB)", total=None)

    def show(read: int, size: int) -> None:
        progress.update(bar, completed=read // _MB, total=max(1, size // _MB))

    return show


def _available(folder: SourceFolder, tasks: Sequence[Task], console: Console) -> list[Task]:
    found = []
    for task in tasks:
        base = task if task.recipe is None else get_task(task.recipe.base)
        if folder.choose(base) is None:
            missing = folder.missing(base)[0]
            console.print(
                f"left out: {task.name} (no {missing}; from {task.source.url})", markup=False
            )
        else:
            found.append(task)
    if not found:
        raise UnavailableError(f"{folder.path} holds the files of no task; see dataset_cards")
    return found


if __name__ == "__main__":
    sys.exit(main())
