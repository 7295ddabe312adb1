"""The manifest of a package: what the rows of each split were when they were built.

    {task: {split: {"rows": 486, "digest": "…"}, "raw": {path: sha256}}}

`raw` stands only where no card tells what the raw files must be: with variants from a release of a
source that no card pins. It has the SHA-256 of what each file holds, unpacked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Split

__all__ = ["MANIFEST", "RAW", "split_entries", "splits_in"]

MANIFEST = "manifest.json"
RAW = "raw"


def split_entries(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A task's entry without `raw`: what is told of each split.

    >>> split_entries({"test": {"rows": 1}, "raw": {"a.jsonl": "0f"}})
    {'test': {'rows': 1}}
    """
    return {key: value for key, value in entry.items() if key != RAW}


def splits_in(path: Path, task: str) -> dict[str, Split]:
    """Rows and digests that a manifest has of a task; empty where it does not know it.

    Raises:
        DataError: it is no manifest.
    """
    try:
        entry = split_entries(json.loads(path.read_text(encoding="utf-8")).get(task, {}))
        built = {s: Split(rows=int(e["rows"]), digest=e["digest"]) for s, e in entry.items()}
        if not all(isinstance(split.digest, str) for split in built.values()):
            raise ValueError("a digest that is not text")
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is not a package's manifest ({error}); build it again") from error
    return built
