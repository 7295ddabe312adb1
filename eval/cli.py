"""The command line: `jfinteb run`, `tasks`, `show`, `report`, `cache`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jfinteb.eval.arguments import add_run_options, chosen_preset, model_options
from jfinteb.loaders.cli import Parser, guarded
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import get_suite, suites

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
  RESULTS/<org>__<model>/<spec>/<task>.json, where <spec> is a digest of everything that changes a
  vector. `jfinteb show RESULTS` prints them.

exit codes: 0 all well; 1 a task failed; 2 the request cannot be met; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `jfinteb` command."""
    parser = Parser(prog="jfinteb", description="Japanese financial text embedding benchmark.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = commands.add_parser
    add_run_options(add("run", help="score a model", description=_RUN_HELP, epilog=_RUN_EXAMPLES))
    tasks = add("tasks", help="list the tasks", description="List the tasks of a suite.")
    tasks.add_argument("--suite", default="all", metavar="NAME", help="default: all")
    show = add(
        "show", help="print results", description="Print a table of all results in a folder."
    )
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
    report.add_argument("--out", type=Path, metavar="FILE", help="default RESULTS/report.html")
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

    output_console().print(task_table(get_suite(args.suite)))
    for name, members in suites().items():
        print(f"suite {name}: {len(members)} tasks")
    print("rows: train/validation/test; retrieval: validation/test/corpus")
    return 0


def _report(args: argparse.Namespace) -> int:
    from jfinteb.eval.report import html
    from jfinteb.eval.result import read_results
    from jfinteb.loaders.files import write_whole

    results = read_results(args.folder)
    if not results:
        raise UsageError(f"no results in {args.folder}; make some with `jfinteb run`")
    out = args.out or args.folder / "report.html"
    try:
        write_whole(out, html(results))
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"wrote {out}")
    return 0


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
    return 1 if unreadable or any(spec.damaged for spec in held) else 0


def _show(args: argparse.Namespace) -> int:
    from jfinteb.eval.result import scan_results
    from jfinteb.eval.table import output_console, print_results

    results, unreadable = scan_results(args.folder)
    for message in unreadable:
        print(f"error: {message}", file=sys.stderr)
    if not results:
        raise UsageError(f"no results in {args.folder}; make some with `jfinteb run`")
    print_results(output_console(), results)
    return 1 if unreadable else 0


if __name__ == "__main__":
    sys.exit(main())
