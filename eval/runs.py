"""Runs as they stand on disk, what tells those of one model apart, and what they do not share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfinteb.eval.result import Result, scan_results

__all__ = [
    "Label",
    "ScoredRun",
    "differences",
    "gather",
    "labels",
    "plain",
    "read_runs",
    "remarks",
    "same_terms",
]


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The results of one model under one spec in one folder.

    Attributes:
        folder: where they stand, seen from the folder that was asked for.
        results: by task name; never empty.
    """

    folder: str
    results: Mapping[str, Result]

    @property
    def first(self) -> Result:
        """Any of the results; model and spec are those of all."""
        return next(iter(self.results.values()))


@dataclass(frozen=True, slots=True)
class Label:
    """What a run is called: its model; what differs between the model's runs; where it stands."""

    model: str
    settings: tuple[str, ...] = ()
    place: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.model, ", ".join(self.settings), self.place)))


def read_runs(output: Path) -> tuple[list[ScoredRun], list[str]]:
    """The runs under a folder, and what is wrong with each file that cannot be read.

    Raises:
        UsageError: no such folder.
    """
    found, unreadable = scan_results(output)
    placed = ((path.parent.relative_to(output).as_posix(), result) for path, result in found)
    return gather(placed), unreadable


def gather(placed: Iterable[tuple[str, Result]]) -> list[ScoredRun]:
    """Results by run, in order. Two folders are two runs, even of one spec."""
    found: dict[tuple[str, bool, str, str], dict[str, Result]] = {}
    for folder, result in placed:
        key = (folder, result.is_sample, result.model, result.spec_digest)
        found.setdefault(key, {})[result.task] = result
    return [ScoredRun(key[0], results) for key, results in found.items()]


def plain(text: str) -> str:
    r"""Text of others for a terminal or page: no control, direction or half a character in it.

    >>> plain("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def labels(runs: Sequence[ScoredRun]) -> list[Label]:
    """A label a run; those of one model differ by what their specs do, and by digest or folder."""
    found = []
    for run in runs:
        same = [other for other in runs if _whose(other) == _whose(run)]
        specs = [other.first.spec for other in same]
        twins = [other for other in same if other.first.spec_digest == run.first.spec_digest]
        place = run.folder if len(twins) > 1 else run.first.spec_digest[:12]
        found.append(
            Label(
                plain(run.first.model),
                tuple(map(plain, differences(run.first.spec, specs))),
                plain(place) if len(same) > 1 else "",
            )
        )
    return found


def _whose(run: ScoredRun) -> tuple[str, bool]:
    return run.first.model, run.first.is_sample


def differences(spec: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a spec says where the specs of one model do not agree."""
    found = []
    for name, value in spec.items():
        theirs = [other.get(name) for other in others]
        if all(other == value for other in theirs):
            continue
        words = name.replace("_", " ")
        if isinstance(value, Mapping):
            maps = [other for other in theirs if isinstance(other, Mapping)]
            found.append(f"{words} {_mapping(value, maps)}")
        else:
            found.append(f"{words} {'all' if value is None else value}")
    return found


def _mapping(value: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Its entries where others have another; equal values once, with the roles that have them."""
    names: dict[str, list[str]] = {}
    for name, entry in value.items():
        if entry != "" and any(other.get(name) != entry for other in others):
            names.setdefault(repr(entry), []).append(name)
    return " ".join(f"{entry} ({', '.join(who)})" for entry, who in names.items()) or "none"


def same_terms(task: str, runs: Sequence[ScoredRun]) -> bool:
    """Whether all that have a score on a task had the same rows and protocol."""
    return len({_terms(run.results[task]) for run in runs if task in run.results}) < 2


def _terms(result: Result) -> str:
    return f"{result.protocol.get('version')} {_rows(result)}"


def _rows(result: Result) -> str:
    return json.dumps(result.data.get("splits"), sort_keys=True)


def remarks(runs: Sequence[ScoredRun]) -> list[str]:
    """What the runs of one table do not share beside model and spec, a line each.

    Args:
        runs: in the order of their numbers, from 1.
    """
    found = []
    names = dict.fromkeys(n for run in runs for r in run.results.values() for n in r.environment)
    versions = {name: _disagreement(runs, _entry(name)) for name in names}
    if any(versions.values()):
        told = "; ".join(f"{name} {text}" for name, text in versions.items() if text)
        found.append(f"made with different versions or devices: {told}")
    if text := _disagreement(runs, lambda result: str(result.protocol.get("version"))):
        found.append(f"not comparable, protocol version {text}")
    for task in dict.fromkeys(task for run in runs for task in run.results):
        held = [(number, run) for number, run in enumerate(runs, 1) if task in run.results]
        groups: dict[str, list[int]] = {}
        for number, run in held:
            groups.setdefault(_rows(run.results[task]), []).append(number)
        if len(groups) > 1:
            parts = " / ".join(_numbers(numbers) for numbers in groups.values())
            found.append(f"not comparable, {task} has other rows: {parts}")
    if text := _disagreement(runs, lambda result: str(result.seed)):
        found.append(f"different seeds: {text}")
    return [plain(line) for line in found]


def _entry(name: str) -> Callable[[Result], str | None]:
    return lambda result: result.environment.get(name)


def _disagreement(runs: Sequence[ScoredRun], value_of: Callable[[Result], str | None]) -> str:
    """Each value with the runs that have it, and of a mixed run the tasks; "" if there is one."""
    values: dict[str, dict[int, list[str]]] = {}
    for number, run in enumerate(runs, 1):
        for task, result in run.results.items():
            if (value := value_of(result)) is not None:
                values.setdefault(str(value), {}).setdefault(number, []).append(task)
    if len(values) < 2:
        return ""
    parts = []
    for value, who in values.items():
        mixed = {n for n in who if any(n in other for v, other in values.items() if v != value)}
        whole = [_numbers([n for n in who if n not in mixed])] if set(who) - mixed else []
        some = [f"run {n} {_where(who[n], runs[n - 1])}" for n in sorted(mixed)]
        parts.append(f"{value} ({'; '.join([*whole, *some])})")
    return ", ".join(parts)


def _where(tasks: Sequence[str], run: ScoredRun) -> str:
    others = [name for name in run.results if name not in tasks]
    if len(others) < len(tasks):
        return f"except {', '.join(others)}"
    return f"in {', '.join(tasks)}"


def _numbers(numbers: Sequence[int]) -> str:
    """`run 2`, or `runs 1, 3-5`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    texts = [f"{s[0]}-{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in spans]
    return f"run{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
