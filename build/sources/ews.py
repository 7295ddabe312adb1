"""Economy Watchers Survey: four tasks sampled from the raw comments of all months.

The recipe is the benchmark authors': comments of ten characters or more, current before future
assessments, and for every label a sample of its own, drawn after `random.seed(42)`.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jfinteb.build.sources.files import SourceFolder, Stamp, stamp
from jfinteb.build.sources.lines import json_lines
from jfinteb.build.split import SEED
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task

__all__ = ["FEWEST_ROWS", "Comment", "sampled"]

FEWEST_ROWS = 10  # a label: fewer cannot be cut 70/10/20
_MONTH = re.compile(r"\d{4}(?:0[1-9]|1[0-2])", re.ASCII)
_SHORTEST = 10  # characters of a comment
_TEXT = {"current": "追加説明及び具体的状況の説明", "future": "景気の先行きに対する判断理由"}
_SENTIMENT = {"current": "景気の現状判断", "future": "景気の先行き判断"}
_HORIZON = {"current": "現状", "future": "先行き"}


# release -> config -> digest of its comments as they are read here. The publisher's files may be
# written in many ways (packed, other spaces), so it is not of their bytes.
_CONTENT: Mapping[str, Mapping[str, str]] = {
    "2025.05.0": {
        "current": "7b681e2a7fb552a4a23a2d7bb29ba94658ee4a9d2fa0f57045728c0f967925d1",
        "future": "9aac7351d6e5be3fb5542bb83ef24e58051b02d445eeda9bf2f6df72e7ec8abe",
    }
}


class Comment(NamedTuple):
    """One comment, with the label that each task would give it (None: not in that task)."""

    id: str
    month: str
    text: str
    domain: str | None
    sentiment: str | None
    horizon: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The label, rows drawn for each of its values, and the share of every split but the last."""

    field: str
    rows: int
    shares: Sequence[float]


_RECIPES: Mapping[str, _Recipe] = {
    "ews_domain": _Recipe("domain", 2000, (0.7, 0.1)),
    "ews_sentiment": _Recipe("sentiment", 2000, (0.7, 0.1)),
    "ews_horizon": _Recipe("horizon", 5000, (0.7, 0.1)),
    "ews_reason": _Recipe("reason", 1000, (0.5,)),
}


def sampled(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """Sample a task's splits from the raw comments; rows stand in raw order within a split.

    Raises:
        UnavailableError: a raw file is missing.
        DataError: a raw file cannot be read, or a label has fewer comments than are drawn.
    """
    variant = task.recipe
    recipe = _RECIPES[variant.base if variant else task.name]
    count = variant.rows if variant and variant.rows else recipe.rows
    pool = _pool(task, source, (variant and variant.month) or "")
    drawn: dict[str, list[int]] = {split: [] for split in task.splits}
    by_label: dict[str, list[int]] = {label: [] for label in task.labels}
    for i, comment in enumerate(pool):
        by_label.get(getattr(comment, recipe.field) or "", []).append(i)
    for label, members in by_label.items():
        if len(members) < count:
            fewest = min(len(found) for found in by_label.values())
            raise DataError(
                f"{task.name}: label {label} has {len(members)} comments, expected {count} or "
                f"more; {_way_out(task, fewest)}"
            )
        for split, part in zip(task.splits, _parts(members, count, recipe.shares), strict=True):
            drawn[split] += part
    return {
        split: [
            {"id": c.id, "text": c.text, "label": getattr(c, recipe.field)}
            for c in (pool[i] for i in sorted(chosen))
        ]
        for split, chosen in drawn.items()
    }


def _way_out(task: Task, fewest: int) -> str:
    """What to do where a label has `fewest` comments, fewer than are to be drawn."""
    if task.recipe is None:
        return f"get revision {task.source.revision} from {task.source.url}"
    if fewest < FEWEST_ROWS:
        return "begin with an earlier month (--since), or take a later release (--revision)"
    return f"draw fewer a label (--rows-per-label, at most {fewest} here)"


def _parts(members: Sequence[int], count: int, shares: Sequence[float]) -> list[list[int]]:
    random.seed(SEED)  # the authors' own call, before every label
    sample, start, parts = random.sample(members, count), 0, []
    for share in shares:
        stop = start + int(count * share)
        parts.append(sample[start:stop])
        start = stop
    return [*parts, sample[start:]]


def _pool(task: Task, source: SourceFolder, since: str) -> list[Comment]:
    """Comments of the task's configs, current before future, from month `since` on."""
    paths: dict[str, list[Path]] = {}
    for key in task.source.files:
        paths.setdefault(key.partition("_")[0], []).append(source.file(task, key))
    found = {
        config: _comments(task.source.parser, config, tuple(p), tuple(map(stamp, p)))
        for config, p in paths.items()
    }
    if task.recipe is not None:  # the card has no digest of what is sampled then
        for config, comments in found.items():
            _check_release(task, config, comments)
    return [comment for part in found.values() for comment in part if comment.month >= since]


@lru_cache(maxsize=2)
def _comments(
    name: str, config: str, paths: tuple[Path, ...], _stamps: tuple[Stamp, ...]
) -> tuple[Comment, ...]:
    """Comments of a config (`current` or `future`) that are long enough, in raw order."""
    keys = ("id", "year-month", "関連", _TEXT[config], _SENTIMENT[config])
    return tuple(
        Comment(
            id=row["id"],
            month=_month(row, path, name),
            text=row[_TEXT[config]],
            domain=row["関連"],
            sentiment=row[_SENTIMENT[config]],
            horizon=_HORIZON[config],
            reason=row.get("判断の理由"),
        )
        for path in paths
        for row in json_lines(path, name, *keys)
        if len(row[_TEXT[config]]) >= _SHORTEST
    )


def _check_release(task: Task, config: str, comments: tuple[Comment, ...]) -> None:
    revision = task.source.revision or ""
    expected = _CONTENT.get(revision, {}).get(config)
    if expected is not None and (digest := _content(comments)) != expected:
        raise DataError(
            f"{task.name}: the {config} comments are not those of release {revision} (found "
            f"digest {digest[:12]}…, expected {expected[:12]}…); get these from "
            f"{task.source.url}, or name the release that they are of with --revision"
        )


@lru_cache(maxsize=2)
def _content(comments: tuple[Comment, ...]) -> str:
    """SHA-256 of comments, whatever the file they came from looks like."""
    digest = hashlib.sha256()
    for comment in comments:
        digest.update(json.dumps(comment, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def _month(row: dict[str, Any], path: Path, name: str) -> str:
    month: str = row["year-month"]
    if not _MONTH.fullmatch(month):
        raise DataError(
            f"{name}: {path.name}, row {row['id']}: found year-month {month!r}, expected YYYYMM; "
            "get the file again"
        )
    return month
