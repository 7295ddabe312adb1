"""Parsers: raw source files to rows, one function a raw format.

A parser takes a task and its opened source folder and returns the rows of every split, labels by
name. A card chooses its parser by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jfinteb.build.sources import chabsa, dumps, ews, pairs, published
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.task import Task

__all__ = ["PARSERS", "Parser", "Rows"]

Rows = dict[str, list[dict[str, Any]]]
Parser = Callable[[Task, SourceFolder], Rows]

PARSERS: Mapping[str, Parser] = {
    "published_classification": published.classification,
    "published_retrieval": published.retrieval,
    "chabsa": chabsa.sentences,
    "ews": ews.sampled,
    "wikipedia_dump": dumps.from_wikipedia,
    "wikinews_dump": dumps.from_wikinews,
    "pfmt": pairs.pfmt,
    "jafin": pairs.jafin,
    "multifin": published.multifin,
}
