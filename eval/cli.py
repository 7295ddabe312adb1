"""The command line: `jfinteb run`, `tasks`, `show`, `report`, `cache`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jfinteb.eval.arguments import add_run_options, chosen_preset, model_options
from jfinteb.loaders.cli import Parser, guarded, names
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import declared_tasks, get_suite, suites, task_names

if TYPE_CHECKING:
    from jfinteb.eval.leaderboard import Board

__all__ = ["main", "run_main"]

_RUN_HELP = """\
Score a text-embedding model on JFinTEB.

Validation only chooses a setting (classifier, similarity, clustering algorithm); test is reported.
Each task's result is written as it ends; run again, and only what is missing or changed is
computed. Vectors are used as the model gives them unless it declares, or you ask for, more.
"""
_RUN_EXAMPLES = """\
examples:
  the embedded baseline on the embedded sample suite: no download, some seconds
    python eval/run.py --model lexical --suite sample
  a model from the hub on the paper's 11 tasks
    python eval/run.py --model intfloat/multilingual-e5-small
  a model folder on a package that you built yourself, offline
    python eval/run.py --model ./my-model --data hub --tasks ews_domain,pfmt --pooling cls
  what would be run
    python eval/run.py --model ./my-model --data hub --suite all --dry-run

results:
  RESULTS/<org>__<model>/<run>/<task>.json, where <run> is a digest of everything that changes a
  vector, versions and device among it. `jfinteb show RESULTS` prints them.

exit codes: 0 all well; 1 a task failed; 2 the request cannot be met; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `jfinteb` command."""
    parser = Parser(prog="jfinteb", description="Japanese financial text embedding benchmark.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = commands.add_parser
    add_run_options(add("run", help="score a model", description=_RUN_HELP, epilog=_RUN_EXAMPLES))
    tasks = add("tasks", help="list the tasks", description="List the tasks and their variants.")
    tasks.add_argument("--suite", metavar="NAME", help="only those of a suite")
    _add_views(add)
    models = add(
        "models",
        help="list the presets",
        description="List the models whose makers' settings are known here, or show one in full.",
    )
    models.add_argument("name", nargs="?", metavar="NAME", help="hub id, alias or short name")
    cache = add(
        "cache",
        help="show, check or clear kept vectors",
        description="Show the vectors that runs have kept, by model and spec.",
    )
    cache.add_argument(
        "--cache", type=Path, metavar="DIR", help="default: JFINTEB_CACHE, or the user's cache"
    )
    cache.add_argument("--verify", action="store_true", help="compare every checksum")
    cache.add_argument(
        "--clear", metavar="MODEL", help="delete what is kept of a model, or 'all'; asks nothing"
    )
    args = parser.parse_args(argv)
    commands_by_name: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run,
        "tasks": _tasks,
        "show": _show,
        "report": _report,
        "cache": _cache,
        "models": _models,
    }
    return guarded(lambda: commands_by_name[args.command](args))


def _add_views(add: Callable[..., argparse.ArgumentParser]) -> None:
    """`show` and `report`."""
    show = add("show", help="print results", description="Compare all runs in a folder.")
    report = add("report", help="write an HTML page", description="Write results as one HTML page.")
    for command in (show, report):
        command.add_argument(
            "folder",
            type=Path,
            nargs="?",
            default=Path("results"),
            metavar="RESULTS",
            help="default results",
        )
        command.add_argument("--model", metavar="TEXT", help="only models with TEXT in their name")
        command.add_argument("--suite", metavar="NAME", help="only the tasks of a suite")
        command.add_argument(
            "--tasks", type=names, metavar="A,B", help="only these tasks; they have no average"
        )
    show.add_argument(
        "--intervals",
        action=argparse.BooleanOptionalAction,
        help="95 %% intervals under scores; default: where the table has room",
    )
    machine = show.add_mutually_exclusive_group()
    machine.add_argument("--json", action="store_true", help="print JSON instead: tables with rows")
    machine.add_argument("--csv", action="store_true", help="print CSV instead: a line a score")
    report.add_argument("--out", type=Path, metavar="FILE", help="default RESULTS/report.html")


def run_main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python eval/run.py`: the same as `jfinteb run`."""
    parser = Parser(prog="eval/run.py", description=_RUN_HELP, epilog=_RUN_EXAMPLES)
    add_run_options(parser)
    args = parser.parse_args(argv)
    return guarded(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from jfinteb.eval.session import Session

    preset = chosen_preset(args)
    return Session.from_args(args, model_options(args, preset), preset).run()


def _tasks(args: argparse.Namespace) -> int:
    from jfinteb.eval.table import output_console, task_table

    tasks = declared_tasks() if args.suite is None else get_suite(args.suite)
    output_console().print(task_table(tasks))
    for name, members in suites().items():
        lacking = [task for task in task_names() if not {task, f"{task}_clean"} & set(members)]
        without = f", without {', '.join(lacking)}" if lacking else ""
        print(f"suite {name}: {len(members)} tasks{without}")
    print("rows: train/validation/test; retrieval: validation/test/corpus; clustering: no train")
    print("public no: rows may not be redistributed; `python -m jfinteb.build` makes them for you")
    if args.suite is None:
        print("fresh variants: ews_*_since_<YYYYMM>[_n<rows>][_r<release>], built with --since")
        print("variants from a dump of your own: wiki*_dump and industry*_dump, see their cards")
    return 0


def _report(args: argparse.Namespace) -> int:
    from jfinteb.eval.report import html
    from jfinteb.loaders.files import write_whole

    boards, unreadable = _boards(args)
    out = args.out or args.folder / "report.html"
    try:
        write_whole(out, html(boards))
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"wrote {out}")
    return 1 if unreadable else 0


def _boards(args: argparse.Namespace) -> tuple[list[Board], list[str]]:
    """What was asked for; files that cannot be read are told on standard error."""
    from jfinteb.eval.leaderboard import boards, choose
    from jfinteb.eval.runs import read_runs

    runs, unreadable = read_runs(args.folder)
    for message in unreadable:
        print(f"error: {message}", file=sys.stderr)
    if not runs:
        raise UsageError(f"no results in {args.folder}; make some with `jfinteb run`")
    chosen = choose(runs, args.model, args.suite, args.tasks)
    return boards(chosen, suite=args.suite, chosen=args.tasks is not None), unreadable


def _models(args: argparse.Namespace) -> int:
    from jfinteb.eval.presets import describe, get_preset, models_table, presets
    from jfinteb.eval.table import output_console

    if args.name is None:
        output_console().print(models_table(presets()))
        print("jfinteb models NAME shows one in full; docs/models.md says how presets are used")
    else:
        print(describe(get_preset(args.name)))
    return 0


def _cache(args: argparse.Namespace) -> int:
    from jfinteb.eval.cache import cache_folder
    from jfinteb.eval.cache_file import clear, describe_folder
    from jfinteb.eval.exports import exports_in
    from jfinteb.eval.table import cache_table, output_console

    folder = args.cache or cache_folder()
    if args.clear is not None:
        names, size = clear(folder, args.clear)
        print("\n".join(f"removed {name}" for name in names))
        print(f"{len(names)} files, {size / 1e6:.1f} MB, from {folder}")
        return 0
    held, unreadable = describe_folder(folder, verify=args.verify)
    for message in unreadable:
        print(f"error: {message}", file=sys.stderr)
    output_console().print(cache_table(held))
    print(f"{sum(spec.bytes for spec in held) / 1e6:.1f} MB of vectors in {folder}")
    for export in exports_in(folder):
        of = f"{export.model} {export.revision}" if export.model else "a model, or not whole"
        made = f", made {export.made}" if export.made else ""
        print(f"OpenVINO export of {of}: {export.bytes / 1e6:.1f} MB{made}")
    return 1 if unreadable or any(spec.damaged for spec in held) else 0


def _show(args: argparse.Namespace) -> int:
    from jfinteb.eval.board_export import to_csv, to_json
    from jfinteb.eval.board_table import print_boards
    from jfinteb.eval.table import output_console

    boards, unreadable = _boards(args)
    if args.json or args.csv:
        if isinstance(sys.stdout, io.TextIOWrapper):  # machines expect UTF-8 on every system
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        sys.stdout.write(to_json(boards) if args.json else to_csv(boards))
    else:
        print_boards(output_console(), boards, args.intervals)
    return 1 if unreadable else 0


if __name__ == "__main__":
    sys.exit(main())
