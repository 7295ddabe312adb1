"""Results as runs write them, with the values that a test is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jfinteb.eval.result import Result, scan_results
from jfinteb.eval.runs import ScoredRun, gather
from jfinteb.loaders.task import get_task

SPEC: dict[str, Any] = {
    "pooling": "mean",
    "prompts": {"query": "", "document": "", "classification": "", "clustering": ""},
    "truncate_dim": None,
    "normalize": False,
}


def result(
    task: str,
    score: float,
    *,
    half: float = 0.01,
    model: str = "org/a",
    digest: str = "d" * 64,
    spec: Mapping[str, Any] = SPEC,
    environment: Mapping[str, str] | None = None,
    rows: str = "rows",
    version: int = 2,
    seed: int = 0,
    sample: bool = False,
    seeds: int | None = None,
) -> Result:
    """A result whose interval is `score` ± `half`, or whose spread is, over so many seeds."""
    low, high = score - half, score + half
    outcome: dict[str, Any] = {"score": score, "chosen": "cosine", "validation": {}}
    if seeds is None:
        outcome["interval"] = {"low": low, "high": high, "level": 0.95, "resamples": 1000}
    else:
        outcome["spread"] = {"low": low, "high": high, "seeds": list(range(seeds))}
    return Result(
        task=task,
        kind=get_task(task).kind.value,
        metric=get_task(task).metric,
        score=score,
        model=model,
        identity=f"{task} {digest} {rows} {version} {seed}",
        seed=seed,
        data={
            "origin": "sample" if sample else "folder hub",
            "splits": {"test": {"rows": 9, "digest": rows}},
        },
        spec={"model": model, **spec},
        spec_digest=digest,
        outcome=outcome,
        counts={"truncated": 3},
        protocol={"version": version, "dimensions": 8},
        seconds={"encode": 1.0},
        environment=dict(environment or {"torch": "2.13.0", "device": "cpu"}),
        finished="2026-11-30T04:18:04+00:00",
        notes=["a note"],
    )


def run(*results: Result, folder: str = "f") -> ScoredRun:
    """One run of these."""
    (found,) = gather((folder, each) for each in results)
    return found


def write(folder: Path, *results: Result) -> None:
    """Result files, as `jfinteb.eval.result` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in results:
        text = json.dumps(asdict(each), ensure_ascii=True)
        (folder / f"{each.task}.json").write_text(text, encoding="utf-8")


def read_results(output: Path) -> list[Result]:
    """All results under a folder, every file sound."""
    found, unreadable = scan_results(output)
    assert not unreadable
    return [result for _, result in found]
