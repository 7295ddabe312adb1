"""Sets that their authors publish split already: rows are taken as they stand, in order."""

from __future__ import annotations

from typing import Any

from jfinteb.build.sources.files import SourceFolder
from jfinteb.build.sources.lines import json_lines
from jfinteb.loaders.task import CORPUS, Task

__all__ = ["classification", "multifin", "retrieval"]


def classification(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """JSON Lines with text, label and perhaps id; rows without an id get `<split>-<row>`."""
    return {
        split: [
            {"id": row.get("id", f"{split}-{n}"), "text": row["text"], "label": row["label"]}
            for n, row in enumerate(json_lines(source.file(task, split), task, "text", "label"))
        ]
        for split in task.splits
    }


def retrieval(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """JSON Lines of queries (query, relevant_docs) and documents (docid, text); ids become text."""
    rows: dict[str, list[dict[str, Any]]] = {
        split: [
            {
                "id": f"{split}-{n}",
                "query": row["query"],
                "relevant_docs": [str(doc) for doc in row["relevant_docs"]],
            }
            for n, row in enumerate(
                json_lines(source.file(task, split), task, "query", "relevant_docs")
            )
        ]
        for split in task.splits
        if split != CORPUS
    }
    docs = json_lines(source.file(task, CORPUS), task, "docid", "text")
    return {**rows, CORPUS: [{"docid": str(d["docid"]), "text": d["text"]} for d in docs]}


def multifin(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """MultiFin in all languages, the publisher's splits: only the Japanese rows."""
    return {
        split: [
            {"id": str(row["id"]), "text": row["text"], "label": row["label"]}
            for row in json_lines(source.file(task, split), task, "id", "text", "label", "lang")
            if row["lang"] == "Japanese"
        ]
        for split in task.splits
    }
