"""Result files: one JSON a task, which every table, average and report is derived from.

<output>/<org>__<model>/<run digest>/<task>.json               the result
<output>/<org>__<model>/<run digest>/<task>.predictions.jsonl  one line a test row
<output>/<org>__<model>/<run digest>/<task>.<identity>.json    an older one, of other data
<output>/<org>__<model>/<run digest>/summary.json              derived from the results there
<output>/sample/…                                               the same for the sample suite
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jfinteb.eval.encoder import EncoderSpec
from jfinteb.eval.outcome import Outcome
from jfinteb.loaders.data import SAMPLE
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.files import write_whole
from jfinteb.loaders.task import find_task, get_task

__all__ = [
    "Failed",
    "Result",
    "averages",
    "identity",
    "outcome_fields",
    "read_result",
    "run_digest",
    "run_folder",
    "scan_results",
    "write_result",
    "write_summary",
]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that is known of one task's score.

    Attributes:
        task: task name.
        metric: name of the reported metric; `score` is its value on test.
        identity: digest of what the score follows from: data, spec, protocol version and seed.
        data: origin of the rows; per split, their number and content digest.
        spec: the encoder spec, with the prompt of every role spelled out.
        outcome: scores, chosen setting, validation scores of every setting, interval or spread.
        counts: texts, tokens, truncated, blank and not-NFC texts.
        protocol: its version (see `jfinteb.eval.protocols`), dimensions of the vectors, and how the
            interval was made.
        seconds: load, encode and score.
        environment: versions of what computed it, and the device.
        notes: what a reader should know.
    """

    task: str
    kind: str
    metric: str
    score: float
    model: str
    identity: str
    seed: int
    data: Mapping[str, Any]
    spec: Mapping[str, Any]
    spec_digest: str
    outcome: Mapping[str, Any]
    counts: Mapping[str, int]
    protocol: Mapping[str, Any]
    seconds: Mapping[str, float]
    environment: Mapping[str, str]
    finished: str
    notes: list[str] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def is_sample(self) -> bool:
        """Whether the data are the synthetic sample, whose scores mean nothing."""
        return bool(self.data["origin"] == SAMPLE)


@dataclass(frozen=True, slots=True)
class Failed:
    """A task without a score, and why."""

    task: str
    reason: str


def run_digest(spec: EncoderSpec, environment: Mapping[str, str]) -> str:
    """Digest of a run: how a model is used, and the versions and device that make its vectors."""
    parts = [spec.digest, sorted(environment.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def identity(task: str, digests: Mapping[str, str], run: str, version: int, seed: int) -> str:
    """Digest of all that a score follows from; a result with this identity need not be redone.

    Args:
        task: its name.
        digests: of the rows, by split.
        run: see `run_digest`.
        version: of the protocols.
        seed: of what draws random numbers.
    """
    parts = [SCHEMA, task, sorted(digests.items()), run, version, seed]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_folder(output: Path, spec: EncoderSpec, run: str, *, sample: bool) -> Path:
    """The folder of a model's results in one run, by its `run_digest`."""
    model = spec.model if "/" in spec.model else f"local/{spec.model}"
    name = "__".join(re.sub(r"[^\w.\-]+", "-", part) for part in model.split("/"))
    return (output / SAMPLE if sample else output) / name / run[:12]


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """An outcome for a result file: all but the predictions, which have their own."""
    fields = asdict(replace(outcome, predictions=()))
    return {k: v for k, v in fields.items() if v is not None and k not in ("predictions", "notes")}


def write_result(folder: Path, result: Result, outcome: Outcome) -> Path:
    """Write predictions, then the result; each is whole or absent.

    Raises:
        UsageError: the files cannot be written.
    """
    path = folder / f"{result.task}.json"
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in outcome.predictions)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _set_aside(path, result.identity)
        write_whole(folder / f"{result.task}.predictions.jsonl", "".join(f"{x}\n" for x in lines))
        write_whole(path, _dump(asdict(result)))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _set_aside(path: Path, new: str) -> None:
    """Keep a result of other data or another seed under its identity instead of replacing it."""
    if not path.exists():
        return
    old = read_result(path).identity
    if old != new:
        for suffix in (".predictions.jsonl", ".json"):
            if (file := path.with_suffix(suffix)).exists():
                file.replace(path.with_name(f"{path.stem}.{old[:8]}{suffix}"))


def read_result(path: Path) -> Result:
    """Read one result file.

    Raises:
        DataError: it is not a result, or of a schema that this version does not know.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        schema = values.get("schema")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} is not a result file ({error}); move it away and run again"
        ) from error
    if schema != SCHEMA:
        raise DataError(
            f"{path} has schema {schema!r}, this version reads {SCHEMA}; update jfinteb"
        )
    try:
        result = Result(**values)
        task, _, _ = path.name.removesuffix(".json").partition(".")
        sound = result.task == task and _is_sound(result)
    except (TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{path} is not a result file ({error}); move it away") from error
    if not sound:
        raise DataError(f"{path} is not the result of its task {task}; move it away")
    return result


_TEXTS = ("task", "kind", "metric", "model", "identity", "spec_digest", "finished")
_OBJECTS = ("data", "spec", "outcome", "counts", "protocol", "seconds", "environment")


def _is_sound(result: Result) -> bool:
    """Whether its parts are of the kinds that tables and reports take them for."""
    outcome, data = result.outcome, result.data
    ranges = [outcome[name] for name in ("interval", "spread") if name in outcome]
    numbers = [result.score, outcome.get("ceiling", 1.0)]
    numbers += [found[side] for found in ranges for side in ("low", "high")]
    numbers += result.counts.values()
    tried = [value for scores in outcome["validation"].values() for value in scores.values()]
    texts = [getattr(result, name) for name in _TEXTS]
    texts += [outcome["chosen"], data["origin"], *result.notes, *result.environment.values()]
    rows = [split["rows"] for split in data["splits"].values()]
    return (
        all(isinstance(getattr(result, name), dict) for name in _OBJECTS)
        and isinstance(result.notes, list)
        and all(isinstance(text, str) for text in texts)
        and bool(outcome["chosen"] and data["origin"] and ranges)
        and all(isinstance(n, (int, float)) and math.isfinite(n) for n in [*numbers, *tried, *rows])
    )


def scan_results(output: Path) -> tuple[list[tuple[Path, Result]], list[str]]:
    """The results under a folder with their files, in a fixed order, and what is wrong with others.

    Raises:
        UsageError: no such folder.
    """
    if not output.is_dir():
        raise UsageError(f"no folder {output}; expected the folder that `jfinteb run` wrote to")
    results, unreadable = [], []
    for path in _result_paths(output):
        try:
            results.append((path, read_result(path)))
        except DataError as error:
            unreadable.append(str(error))
    return results, unreadable


def _result_paths(output: Path) -> list[Path]:
    """The result files under a folder, in a fixed order; those set aside are not among them."""
    return sorted(path for path in output.rglob("*.json") if find_task(path.stem) is not None)


def averages(scores: Mapping[str, float], tasks: Iterable[str]) -> dict[str, float | None]:
    """Mean score by kind and over all of `tasks`; None where any of them has no score."""
    wanted = list(tasks)
    kinds: dict[str, list[str]] = {}
    for name in wanted:
        kinds.setdefault(get_task(name).kind.value, []).append(name)
    return {group: _mean(scores, names) for group, names in {**kinds, "all": wanted}.items()}


def _mean(scores: Mapping[str, float], names: list[str]) -> float | None:
    if any(name not in scores for name in names):
        return None
    return sum(scores[name] for name in names) / len(names)


def write_summary(folder: Path, suite: Mapping[str, tuple[str, ...]]) -> None:
    """Derive `summary.json` from the results of a run folder.

    Args:
        folder: of one model under one spec.
        suite: suite name -> its tasks; each gets its averages, None while tasks are missing.
    """
    found, unreadable = scan_results(folder) if folder.is_dir() else ([], [])
    results = [result for _, result in found]
    if not results:
        return
    scores = {r.task: r.score for r in results}
    summary = {
        "schema": SCHEMA,
        "model": results[0].model,
        "spec_digest": results[0].spec_digest,
        "sample": results[0].is_sample,
        "scores": scores,
        "averages": {name: averages(scores, tasks) for name, tasks in suite.items()},
        "unreadable": unreadable,
    }
    try:
        write_whole(folder / "summary.json", _dump(summary))
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error


def _dump(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
