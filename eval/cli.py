"""The command line: `jfinteb run`, `jfinteb tasks`, `jfinteb show`, `jfinteb report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jfinteb.loaders.cli import Parser, guarded, names
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role, get_suite, suites

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
    python eval/run.py --model intfloat/multilingual-e5-small \\
        --prompt "query: " --query-prompt "query: " --document-prompt "passage: "
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
    _add_run_options(add("run", help="score a model", description=_RUN_HELP, epilog=_RUN_EXAMPLES))
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
    args = parser.parse_args(argv)
    commands_by_name: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run,
        "tasks": _tasks,
        "show": _show,
        "report": _report,
    }
    return guarded(lambda: commands_by_name[args.command](args))


def run_main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python eval/run.py`: the same as `jfinteb run`."""
    parser = Parser(prog="eval/run.py", description=_RUN_HELP, epilog=_RUN_EXAMPLES)
    _add_run_options(parser)
    args = parser.parse_args(argv)
    return guarded(lambda: _run(args))


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    onoff = argparse.BooleanOptionalAction
    parser.add_argument(
        "--model", required=True, help="hub id, model folder, or 'lexical' (the baseline)"
    )
    what = parser.add_argument_group("what to run")
    what.add_argument("--suite", metavar="NAME", help=f"{', '.join(suites())}; default jfinteb")
    what.add_argument(
        "--tasks", type=names, nargs="+", metavar="A,B", help="only these tasks, of any suite"
    )
    what.add_argument(
        "--data",
        metavar="DATA",
        help="package folder, hub repository[@revision] or 'sample'; default: the hub's",
    )
    what.add_argument(
        "--output",
        type=Path,
        default=Path("results"),
        metavar="RESULTS",
        help="folder of all results; default results",
    )
    what.add_argument("--seed", type=_seed, default=0, help="first seed of clustering; default 0")
    what.add_argument("--dry-run", action="store_true", help="show what would run, and stop")
    what.add_argument("--debug", action="store_true", help="show where an unexpected error arose")

    how = parser.add_argument_group("how the model is used; all of it stands in the result")
    how.add_argument("--backend", help="transformers or lexical; default: by --model")
    how.add_argument("--revision", help="hub branch, tag or commit of the model")
    how.add_argument(
        "--pooling",
        default="auto",
        help="mean cls last max weighted_mean mean_sqrt_len first_last_avg, several joined by +, "
        "or auto: the model's own; default auto",
    )
    how.add_argument("--layer", type=int, default=-1, help="hidden layer to pool; default -1")
    how.add_argument(
        "--special-tokens", action=onoff, default=True, help="special tokens in the pool"
    )
    how.add_argument("--pool-prompt", action=onoff, help="the prompt's tokens in the pool")
    how.add_argument("--query-prompt", metavar="TEXT", help="before every retrieval query")
    how.add_argument("--document-prompt", metavar="TEXT", help="before every document")
    how.add_argument(
        "--prompt", metavar="TEXT", help="before the texts of classification and clustering"
    )
    how.add_argument("--classification-prompt", metavar="TEXT", help="instead of --prompt, there")
    how.add_argument("--clustering-prompt", metavar="TEXT", help="instead of --prompt, there")
    how.add_argument("--max-length", type=int, metavar="N", help="tokens; never above the model's")
    how.add_argument("--truncate-dim", type=int, metavar="N", help="keep the first N dimensions")
    how.add_argument("--normalize", action=onoff, help="scale vectors to length 1")
    how.add_argument("--dtype", default="float32", help="float32, bfloat16, float16 or auto")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda[:n] or mps")
    how.add_argument("--batch-tokens", type=int, metavar="N", help="tokens in the model at once")
    how.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run code that the model's repository holds",
    )


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"found {value}, expected 0 to {2**31 - 1}")
    return value


def _prompts(args: argparse.Namespace) -> dict[str, str]:
    given = {
        Role.QUERY: args.query_prompt,
        Role.DOCUMENT: args.document_prompt,
        Role.CLASSIFICATION: _first(args.classification_prompt, args.prompt),
        Role.CLUSTERING: _first(args.clustering_prompt, args.prompt),
    }
    return {role.value: text for role, text in given.items() if text is not None}


def _first(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)


def _run(args: argparse.Namespace) -> int:
    from jfinteb.eval.session import Session

    return Session.from_args(args, _prompts(args)).run()


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
