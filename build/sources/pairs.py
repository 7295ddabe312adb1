"""Retrieval from question-answer pairs: the answer to a question is its one relevant document."""

from __future__ import annotations

from typing import Any

from jfinteb.build.sources.files import SourceFolder
from jfinteb.build.sources.lines import json_lines
from jfinteb.build.split import shuffled_parts
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import CORPUS, Task

__all__ = ["jafin", "pfmt"]

_VALIDATION = 0.2


def pfmt(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """First-turn questions against the first-turn answers of the card's model, by question id."""
    questions = {
        int(row["question_id"]): row
        for row in json_lines(
            source.file(task, "questions"), task, "question_id", "category", "turns"
        )
    }
    answers = {
        int(row["question_id"]): row["choices"][0]["turns"][0]
        for row in json_lines(source.file(task, "answers"), task, "question_id", "choices")
    }
    if questions.keys() != answers.keys():
        odd = sorted(questions.keys() ^ answers.keys())
        raise DataError(
            f"{task.name}: {len(odd)} question ids stand in one file only, first {odd[0]}; "
            "expected an answer to every question"
        )
    pairs = [
        (str(i), questions[i]["turns"][0], answers[i], {"category": questions[i]["category"]})
        for i in sorted(questions)
    ]
    return _split_pairs(pairs)


def jafin(task: Task, source: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    """Instruction, with its input on a line of its own where there is one, against the output."""
    rows = json_lines(source.file(task, "rows"), task, "instruction", "output")
    return _split_pairs(
        [
            (str(n), "\n".join(filter(None, (r["instruction"], r.get("input")))), r["output"], {})
            for n, r in enumerate(rows)
        ]
    )


def _split_pairs(
    pairs: list[tuple[str, str, str, dict[str, str]]],
) -> dict[str, list[dict[str, Any]]]:
    queries = [
        {"id": f"q{i}", "query": query, "relevant_docs": [i], **columns}
        for i, query, _, columns in pairs
    ]
    validation, test = shuffled_parts(queries, _VALIDATION)
    corpus = [{"docid": i, "text": text} for i, _, text, _ in pairs]
    return {"validation": validation, "test": test, CORPUS: corpus}
