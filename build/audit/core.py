"""Audit a package: what is in it, and what is wrong with it.

The package is read as it stands, whether or not it satisfies its cards. How things are counted is
said where they are: flaws in `findings.Check`, what card and manifest tell in `promises`, numbers
in `measures`, what is the same text and what is empty in `rows`, the ceiling of retrieval in
`jfinteb.loaders.ceiling`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jfinteb.build.audit.checks import findings
from jfinteb.build.audit.findings import Check, Finding, Severity, declare, finding
from jfinteb.build.audit.measures import Repeats, SplitAudit, Tokenizer, measure, repeats
from jfinteb.build.audit.promises import promises
from jfinteb.build.audit.rows import Rows, read_rows
from jfinteb.build.audit.table import print_audits
from jfinteb.loaders.cli import Parser, guarded, names
from jfinteb.loaders.errors import DataError, UnavailableError, UsageError
from jfinteb.loaders.files import write_whole
from jfinteb.loaders.manifest import former_package
from jfinteb.loaders.origins import Folder, parquet_path
from jfinteb.loaders.task import CORPUS, Task, find_task, get_task, task_names

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TaskAudit", "audit", "main"]

_HELP = """\
Audit a package folder: rows, labels, repeated, contradictory and leaking texts, lengths, ceilings.

Rows are read as they stand. Where their number or content is not what the cards and the package's
manifest declare, or no manifest tells of them, that is an error.
"""
_EXAMPLES = """\
examples:
  python -m jfinteb.build.audit hub
  python -m jfinteb.build.audit hub --tasks chabsa,pfmt --json audit.json
  python -m jfinteb.build.audit hub --tokenizer ./my-model   # lengths also in its tokens
  python -m jfinteb.build.audit hub --strict                 # for CI

exit codes: 0 audited; 1 with --strict: an error, or a folder, that no card declares; 2 the request
cannot be met
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAudit:
    """What was found in one task.

    Attributes:
        splits: numbers by split, of the splits that can be read.
        repeats: repeated texts over all splits together; in retrieval, over all queries.
        findings: flaws by split.
    """

    task: str
    kind: str
    splits: Mapping[str, SplitAudit]
    repeats: Repeats
    findings: Sequence[Finding]

    @property
    def errors(self) -> list[Finding]:
        """Errors that the card does not declare."""
        return [f for f in self.findings if f.severity is Severity.ERROR and not f.known]


def audit(
    package: Path, tasks: Sequence[str] | None, tokenizer: Tokenizer | None = None
) -> list[TaskAudit]:
    """Audit tasks of a package folder.

    Args:
        package: the folder, as `python -m jfinteb.build` writes it, with whatever flaws.
        tasks: names or aliases; None: every task of which the folder holds a split.
        tokenizer: gives the number of tokens of a text; None: tokens are not counted.

    Raises:
        UsageError: no such folder or task.
        UnavailableError: the folder holds nothing of a task that was asked for, or of any.
    """
    if not package.is_dir():
        kept = former_package(package.absolute())
        hint = f"; a build that was killed keeps the former one in {kept}" if kept else ""
        raise UsageError(
            f"no folder {package}; expected a package, as python -m jfinteb.build writes it{hint}"
        )
    have, _ = _contents(package)
    wanted = have if tasks is None else [get_task(name).name for name in tasks]
    lacking = [name for name in wanted if name not in have]
    if lacking or not wanted:
        raise UnavailableError(
            f"{package} holds nothing of {', '.join(lacking) or 'any task'}; "
            f"it has {', '.join(have) or 'no task'}"
        )
    return [_audit(get_task(name), Folder(package), tokenizer) for name in dict.fromkeys(wanted)]


def _contents(package: Path) -> tuple[list[str], list[str]]:
    """Names of the tasks of which a folder holds a split, and folders in it that no card knows."""
    have, unknown = set(), []
    for folder in sorted({file.parent.name for file in package.glob("data/*/*.parquet")}):
        task = find_task(folder.removesuffix(f"-{CORPUS}"))
        if task is not None and folder in task.configs:
            have.add(task.name)
        else:
            unknown.append(folder)
    order = {name: n for n, name in enumerate(task_names())}
    return sorted(have, key=lambda name: (order.get(name, len(order)), name)), unknown


def _audit(task: Task, folder: Folder, tokenizer: Tokenizer | None) -> TaskAudit:
    splits: dict[str, Rows] = {}
    tables: dict[str, pa.Table] = {}
    found: list[Finding] = []
    for split in task.splits:
        try:
            table = folder.table(task, split)
            splits[split] = read_rows(task, split, table)
            tables[split] = table
        except UnavailableError:
            missing = f"no {parquet_path(task, split)}"
            found.append(finding(Check.MISSING_SPLIT, split, note=missing))
        except DataError as error:
            found.append(finding(Check.REFUSED, split, note=str(error)))
    corpus = splits.get(CORPUS)
    texts = {split: rows for split, rows in splits.items() if split != CORPUS}
    found.extend(promises(task, folder, tables))
    found.extend(findings(texts, task.labels, corpus))
    return TaskAudit(
        task=task.name,
        kind=task.kind.value,
        splits={s: measure(r, task.labels, corpus, tokenizer) for s, r in splits.items()},
        repeats=repeats(texts.values()),
        findings=declare(found, task.known_flaws),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = Parser(prog="python -m jfinteb.build.audit", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("package", type=Path, metavar="FOLDER", help="package folder")
    parser.add_argument("--tasks", type=names, metavar="A,B", help="only these tasks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers and ids")
    parser.add_argument("--strict", action="store_true", help="fail on errors")
    parser.add_argument("--tokenizer", type=Path, metavar="MODEL_FOLDER", help="count tokens")
    args = parser.parse_args(argv)

    def run() -> int:
        tokenizer = None if args.tokenizer is None else load_tokenizer(args.tokenizer)
        audits = audit(args.package, args.tasks, tokenizer)
        if args.json is not None:
            _write_json(args.json, audits)
        print_audits(audits)
        _, unknown = _contents(args.package)
        if unknown:
            print(f"not audited, as no card knows them: {', '.join(unknown)}", file=sys.stderr)
        return int(args.strict and (bool(unknown) or any(one.errors for one in audits)))

    return guarded(run)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a local model: a text's tokens, special ones included, nothing cut off.

    Raises:
        UsageError: no folder, or no tokenizer in it.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; expected the folder of a model with its tokenizer")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the library raises many kinds; each means: not to be loaded
        raise UsageError(
            f"{folder}: no tokenizer can be loaded ({type(error).__name__}: {error}); expected a "
            "model folder with tokenizer files"
        ) from error
    return lambda text: len(tokenizer(text, verbose=False)["input_ids"])


def _write_json(path: Path, audits: Sequence[TaskAudit]) -> None:
    text = json.dumps([asdict(one) for one in audits], ensure_ascii=False, indent=2)
    try:
        write_whole(path.resolve(), text + "\n")  # through a link, which stays one
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
