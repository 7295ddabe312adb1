"""chABSA: sentence polarity from the publisher's zip of annotated securities reports."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from jfinteb.build.sources.files import SourceFolder
from jfinteb.build.split import shuffled_parts
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task

__all__ = ["sentences"]

_SUFFIX = "_ann.json"
# RuntimeError: encrypted, or JSON nested too deep
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_LARGEST = 16 * 2**20  # the largest real report is under 100 kB; more is not this data set
_LARGEST_ALL = 256 * 2**20  # all real reports together have 7 MB
_OPINION = ("target", "category", "polarity", "from", "to")


def sentences(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """Sentences with one polarity, split 70/10/20 by company (each has one report).

    Neutral opinions are set aside; a sentence that then has both polarities, or none, is dropped.
    All its opinions, neutral ones too, stand as JSON in the column `opinions`: a string is what
    datasets 3 and 5 and every parquet reader load alike, where lists of structs differ in type.
    """
    reports = _read_reports(task, source.file(task, "annotations"))
    parts = shuffled_parts(sorted(reports), 0.7, 0.1)
    return {
        split: [row for name in sorted(part) for row in _rows(reports[name])]
        for split, part in zip(task.splits, parts, strict=True)
    }


def _rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    head = report["header"]
    rows = []
    for sentence in report["sentences"]:
        polarities = {opinion["polarity"] for opinion in sentence["opinions"]} - {"neutral"}
        if len(polarities) == 1:
            rows.append(
                {
                    "id": f"{head['document_id']}-{sentence['sentence_id']}",
                    "text": sentence["sentence"],
                    "label": polarities.pop(),
                    "document_id": head["document_id"],
                    "sector": head["category33"],
                    "opinions": _as_json(sentence["opinions"]),
                }
            )
    return rows


def _as_json(opinions: list[dict[str, Any]]) -> str:
    """Opinions in the publisher's order; `from` and `to` are positions in the sentence."""
    return json.dumps([{key: one[key] for key in _OPINION} for one in opinions], ensure_ascii=False)


def _read_reports(task: Task, path: Path) -> dict[str, dict[str, Any]]:
    """Reports by document id; members are read in memory, nothing is unpacked to disk."""
    reports: dict[str, dict[str, Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if (size := sum(member.file_size for member in members)) > _LARGEST_ALL:
                raise DataError(
                    f"{task.name}: {path.name} unpacks to {size} bytes, expected at most "
                    f"{_LARGEST_ALL}"
                )
            for member in members:
                name = member.filename.rpartition("/")[2]
                if not name.endswith(_SUFFIX) or name.startswith("."):  # ._*: made by macOS
                    continue
                if member.file_size > _LARGEST:
                    raise DataError(
                        f"{task.name}: {member.filename} in {path.name} unpacks to "
                        f"{member.file_size} bytes, expected at most {_LARGEST}"
                    )
                with archive.open(member) as stream:
                    report = json.loads(stream.read(_LARGEST + 1))
                reports[report["header"]["document_id"]] = report
    except _UNREADABLE as error:
        raise DataError(
            f"{task.name}: {path.name} is not the chABSA zip ({error}); get it from "
            f"{task.source.url}"
        ) from error
    if not reports:
        raise DataError(f"{task.name}: no *{_SUFFIX} in {path.name}; get it from {task.source.url}")
    return reports
