"""A whole suite from nothing, then again from the cache, beside sentence-transformers task by task.

    python tests/bench/bench_suite.py --model FOLDER --data hub --share 0.1
    python tests/bench/bench_suite.py --model FOLDER --data hub --backend openvino

Of each task a share of its texts is taken, chosen by a hash of the text, so that texts which tasks
share stay shared. sentence-transformers encodes each split of each task by itself, as a harness
does that knows of one task at a time; ours keeps vectors in a cache folder made for this run. The
two take turns task by task, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.cache import give_stores
from jfinteb.eval.protocols import inputs
from jfinteb.loaders.data import SAMPLE, load_tables, open_origin
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.task import Role, get_suite

_RUN = Path(__file__).parents[2] / "eval" / "run.py"
Inputs = dict[str, dict[str, tuple[Role, list[str]]]]  # task -> split -> role, texts


def chosen(text: str, share: float) -> bool:
    """Whether a text is of the share, whichever task it stands in."""
    first = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return first < share * 2**32


def texts_of(data: str, suite: str, share: float) -> Inputs:
    """The texts of every task that is there."""
    origin, found = open_origin(data), {}
    for task in sorted(get_suite(suite), key=lambda task: task.name):
        try:
            tables, _ = load_tables(task, origin)
        except JfintebError:
            continue
        found[task.name] = {
            split: (role, [text for text in texts if text.strip() and chosen(text, share)])
            for split, (role, texts) in inputs(task, tables).items()
        }
    return found


def encoded(encoder: TextEncoder, splits: Mapping[str, tuple[Role, list[str]]]) -> float:
    """Seconds that ours takes for a task: the texts of a role together, as the runner does."""
    roles: dict[Role, list[str]] = {}
    for role, texts in splits.values():
        roles.setdefault(role, []).extend(texts)
    start = time.perf_counter()
    for role, texts in roles.items():
        encoder.encode(texts, role)
    return time.perf_counter() - start


def opened(options: EncoderOptions, cache: Path) -> TextEncoder:
    """An encoder with its cache."""
    encoder = open_encoder(options)
    give_stores([encoder], cache)
    return encoder


def command(*arguments: str) -> float:
    """Seconds of a command of ours that must succeed."""
    start = time.perf_counter()
    subprocess.run([sys.executable, str(_RUN), *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def sample_commands(model: str, cache: Path, runs: int) -> dict[str, float]:
    """Seconds of whole commands on the sample suite: first, dry, from the cache, all kept."""
    common = ["--model", model, "--suite", SAMPLE, "--device", "cpu", "--cache", str(cache)]
    first, again = str(cache / "first"), str(cache / "again")

    def median(*arguments: str) -> float:
        return statistics.median(command(*common, *arguments) for _ in range(runs))

    found = {"first run": command(*common, "--output", first)}
    found["dry run, nothing scored"] = median("--output", again, "--dry-run")
    found["run from the cache"] = command(*common, "--output", again)
    found["run, all results kept"] = median("--output", again)
    return found


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default=os.environ.get("JFINTEB_MODEL"), help="a model folder")
    parser.add_argument("--data", default=SAMPLE, help="a package folder; else the sample suite")
    parser.add_argument("--suite", help="all, or sample without --data")
    parser.add_argument("--share", type=float, default=1.0, help="of the texts, up to 1")
    parser.add_argument("--backend", default="transformers")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--query-prompt", default="", help="of queries, classes and clusters")
    parser.add_argument("--document-prompt", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if not args.model:
        parser.error("give --model, or name a folder in JFINTEB_MODEL")
    from sentence_transformers import SentenceTransformer

    tasks = texts_of(
        args.data, args.suite or ("all" if args.data != SAMPLE else SAMPLE), args.share
    )
    prompts = {role.value: args.query_prompt for role in Role}
    prompts["document"] = args.document_prompt
    options = EncoderOptions(
        model=args.model, backend=args.backend, dtype=args.dtype, device="cpu", prompts=prompts
    )
    dtype = getattr(torch, args.dtype)
    theirs = SentenceTransformer(args.model, device="cpu", model_kwargs={"dtype": dtype})

    def task_by_task(splits: Mapping[str, tuple[Role, list[str]]]) -> float:
        start = time.perf_counter()
        for role, texts in splits.values():
            theirs.encode(texts, prompt=prompts[role.value], batch_size=32, show_progress_bar=False)
        return time.perf_counter() - start

    totals: list[dict[str, float]] = []
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in tasks}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for number in range(args.rounds):
            encoder = opened(options, work / str(number))
            encoder.load()
            warm = ["景気は良い" * n for n in range(1, 9)]
            theirs.encode(warm)
            open_encoder(options).encode(warm, Role.QUERY)
            for place, (task, splits) in enumerate(tasks.items()):
                if (place + number) % 2:
                    ours, base = encoded(encoder, splits), task_by_task(splits)
                else:
                    base, ours = task_by_task(splits), encoded(encoder, splits)
                rows[task].append({"base": base, "ours": ours})
            again = opened(options, work / str(number))
            kept = sum(encoded(again, splits) for splits in tasks.values())
            assert not again.counts.texts - again.counts.cached, "something was not kept"
            totals.append(
                {
                    "base": sum(found[-1]["base"] for found in rows.values()),
                    "ours": sum(found[-1]["ours"] for found in rows.values()),
                    "cached": kept,
                    "tokens": encoder.counts.tokens,
                }
            )
        commands = sample_commands(args.model, work / "commands", 3)
    ratios = [total["base"] / total["ours"] for total in totals]
    table = Table(title=f"{args.share:.0%} of {len(tasks)} tasks, {args.backend}, {args.dtype}")
    for head in ("", "task by task, s", "ours, s", "ratio"):
        table.add_column(head, justify="right" if head else "left")
    for task, found in rows.items():
        base, ours = (statistics.median(row[key] for row in found) for key in ("base", "ours"))
        table.add_row(task, f"{base:.1f}", f"{ours:.1f}", f"{base / ours:.2f}" if ours else "–")
    base, ours = (statistics.median(total[key] for total in totals) for key in ("base", "ours"))
    table.add_row("all", f"{base:.1f}", f"{ours:.1f}", f"{statistics.median(ratios):.2f}")
    console = Console(width=100)
    console.print(table)
    cached = statistics.median(total["cached"] for total in totals)
    console.print(f"all from the cache: {cached:.2f} s, no model loaded")
    for label, seconds in commands.items():
        console.print(f"sample suite, {label}: {seconds:.2f} s")
    if args.out:
        report: dict[str, Any] = {
            "model": Path(args.model).name,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            **{key: getattr(args, key) for key in ("share", "backend", "dtype", "rounds")},
            "tasks": rows,
            "totals": totals,
            "ratios": ratios,
            "commands": commands,
        }
        args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
