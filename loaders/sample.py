"""The embedded sample suite: synthetic rows for every task, so the tool can be tried without data.

Scores on these rows mean nothing about a model. The texts are made up: templates and phrases
written for the phrase bank `sample.yaml`, put together by a seeded grammar. They have the columns
and the labels of the real sets and roughly their look, but neither their difficulty nor their
variety, and a model that does well here has not been shown to be any good.

One scheme writes everything. A *rule* is a list of alternatives. In an alternative, `{slot}`
stands for one alternative of the rule of that name, `{~slot}` for one taken from a *rival*
(another label, another facet: a distractor) and `{3-28}` for a whole number of that range. A slot
written twice in one text has one value. Rules are looked up from the specific to the general:

    classification, clustering   label, task, common
    retrieval                    item, facet, task, common; one document per (item, facet)

so the documents on a query's item under other facets, and on other items under its facet, are hard
negatives. Rows depend on the task's name alone, not on PYTHONHASHSEED or the platform.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from jfinteb.loaders.errors import UsageError

__all__ = ["NOTICE", "rows"]

NOTICE = "sample data: synthetic, for trying the tool; scores say nothing about a model"

Rules = Mapping[str, str | Sequence[str]]
Row = dict[str, object]

_SLOT = re.compile(r"\{(~?)([^{}]+)\}")
_RANGE = re.compile(r"(\d+)-(\d+)")
_DRAWS = 200  # for one new text, before the bank is called too small
_BLOCK = 3  # consecutive rows that share their extra columns, as the sentences of a report do


def rows(name: str, kind: str, labels: Sequence[str]) -> dict[str, list[Row]]:
    """Write the raw rows of one task.

    Args:
        name: The task's name, e.g. `"chabsa"`.
        kind: `"classification"`, `"clustering"` or `"retrieval"`.
        labels: The task's label names, in any order; empty for retrieval.

    Returns:
        Rows per split. Classification has train, validation and test, clustering validation and
        test: `id`, `text`, `label` (a name) and the task's extra columns. Retrieval has
        validation and test (`id`, `query`, `relevant_docs`, a list of one or two docids, and
        extra columns) and corpus (`docid`, `text`).

    Raises:
        UsageError: The bank has no such task, or it has another kind or other labels.

    Examples:
        >>> splits = rows("ews_horizon", "classification", ["先行き", "現状"])
        >>> {split: len(part) for split, part in splits.items()}
        {'train': 80, 'validation': 40, 'test': 40}
    """
    bank = _bank()
    if name not in bank:
        raise UsageError(f"no sample task {name!r}; expected one of {', '.join(sorted(bank))}")
    task = bank[name]
    if kind != task["kind"]:
        raise UsageError(f"sample {name} is of kind {task['kind']}, got {kind!r}; pass that kind")
    known = sorted(task.get("labels", ()))
    if sorted(labels) != known:
        raise UsageError(
            f"sample {name} has labels {known}, got {sorted(labels)}; mend sample.yaml"
        )
    seed = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big")
    return (_retrieval if kind == "retrieval" else _labelled)(task, _Writer(seed))


class _Writer:
    """Expands rules into texts and never gives one text twice."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._given: set[str] = set()

    def fill(self, rule: str, own: Rules, rival: Rules, fixed: dict[str, str] | None = None) -> str:
        """Expand a rule; `fixed` holds the slots that have a value already and takes new ones."""
        values = {} if fixed is None else fixed

        def value(slot: re.Match[str]) -> str:
            tilde, key = slot.groups()
            if span := _RANGE.fullmatch(key):
                return str(self.random.randint(int(span[1]), int(span[2])))
            if slot[0] not in values:
                # A rival's phrase is written from the rival's side, with values of its own.
                values[slot[0]] = (
                    self.fill(key, rival, own) if tilde else self.fill(key, own, rival, values)
                )
            return values[slot[0]]

        bank = own[rule]
        alternatives = bank.strip().split("\n") if isinstance(bank, str) else bank
        return _SLOT.sub(value, self.random.choice(alternatives))

    def text(
        self, rule: str, own: Rules, rival: Rules, fixed: Mapping[str, str] | None = None
    ) -> str:
        """Expand a rule into a text that was not given before."""
        for _ in range(_DRAWS):
            text = self.fill(rule, own, rival, dict(fixed or {}))
            if text not in self._given:
                self._given.add(text)
                return text
        raise ValueError(f"{_DRAWS} draws of {rule!r} gave no new text; add phrases to sample.yaml")


def _labelled(task: Mapping[str, Any], writer: _Writer) -> dict[str, list[Row]]:
    """Write so many texts a label, in shuffled order."""
    # A label is a set of rules, or a list of them (a sector of 17 is several of 33).
    choices: dict[str, list[Rules]] = {
        label: entry if isinstance(entry, list) else [entry]
        for label, entry in sorted(task["labels"].items())
    }
    splits: dict[str, list[Row]] = {}
    for split, per_label in task["rows"].items():
        order = [label for label in choices for _ in range(per_label)]
        writer.random.shuffle(order)
        part = splits[split] = []
        for number, label in enumerate(order):
            own = {**task["rules"], **writer.random.choice(choices[label])}
            other = writer.random.choice([name for name in choices if name != label])
            rival = {**task["rules"], **writer.random.choice(choices[other])}
            if number % _BLOCK == 0:
                block = {**task["rules"], "block": [f"{split}-{number // _BLOCK}"]}
                extra = {name: writer.fill(name, block, block) for name in task["columns"]}
            fixed = {f"{{{name}}}": text for name, text in extra.items()}
            text = writer.text("text", own, rival, fixed)
            row: Row = {"id": f"{split}-{number}", "text": text, "label": label, **extra}
            if "opinions" in task:
                row["opinions"] = _opinions(text, label, task["rules"][task["opinions"]])
            part.append(row)
    return splits


def _opinions(text: str, polarity: str, targets: Sequence[str]) -> str:
    """One opinion in the form of chABSA's, as JSON, on whichever of the targets the text names."""
    target = next(name for rule in targets if (name := _SLOT.sub("", rule)) in text)
    start = text.index(target)
    opinion = {
        "target": target,
        "category": "business#general",
        "polarity": polarity,
        "from": start,
        "to": start + len(target),
    }
    return json.dumps([opinion], ensure_ascii=False)


def _retrieval(task: Mapping[str, Any], writer: _Writer) -> dict[str, list[Row]]:
    """Draw documents from the grid of items and facets, and ask for most of them."""
    items, facets = task["items"], task["facets"]
    grid = [(item, facet) for item in range(len(items)) for facet in range(len(facets))]
    writer.random.shuffle(grid)
    grid = grid[: task["documents"]]

    def side(item: int, facet: int) -> Rules:
        return {**task["rules"], **facets[facet], **items[item]}

    corpus: list[Row] = []
    for docid, (item, facet) in enumerate(grid):
        distractor = writer.random.choice([other for other in range(len(facets)) if other != facet])
        text = writer.text("text", side(item, facet), side(item, distractor))
        corpus.append({"docid": f"d{docid}", "text": text})

    # A pair asks for two documents on one item; every other query for one.
    pairs = [(a, b) for b in range(len(grid)) for a in range(b) if grid[a][0] == grid[b][0]]
    wanted: list[tuple[int, ...]] = [*writer.random.sample(pairs, task["pairs"])]
    singles = sum(task["rows"].values()) - len(wanted)
    wanted += [(docid,) for docid in writer.random.sample(range(len(grid)), singles)]
    writer.random.shuffle(wanted)

    splits: dict[str, list[Row]] = {}
    for split, count in task["rows"].items():
        part = splits[split] = []
        for number in range(count):
            relevant = wanted.pop()
            own, rival = side(*grid[relevant[0]]), side(*grid[relevant[-1]])
            query = writer.text("query" if len(relevant) == 1 else "pair", own, rival)
            extra = {name: writer.fill(name, own, rival) for name in task["columns"]}
            docids = [f"d{docid}" for docid in relevant]
            part.append(
                {"id": f"{split}-{number}", "query": query, "relevant_docs": docids, **extra}
            )
    return {**splits, "corpus": corpus}


@cache
def _bank() -> dict[str, Any]:
    """Read the tasks of `sample.yaml`, each with the common rules below its own."""
    package = __package__ or "jfinteb.loaders"
    source = resources.files(package).joinpath("sample.yaml").read_text(encoding="utf-8")
    bank = yaml.safe_load(source)
    return {
        name: {"columns": [], **task, "rules": {**bank["common"], **task["rules"]}}
        for name, task in bank["tasks"].items()
    }
