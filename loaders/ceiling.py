"""What a perfect model can reach in retrieval where texts are repeated; pure, no data is read."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

__all__ = ["K", "ceiling"]

K = 10


def ceiling(
    queries: Sequence[str], relevant: Sequence[Sequence[str]], corpus: Mapping[str, str]
) -> float:
    """Expected nDCG@10 of a perfect model, which cannot tell equal texts apart.

    It ranks a relevant document together with the copies of its text, in random order, and ranks
    alike for queries of the same wording; the surest texts come first.

    Args:
        queries: query texts.
        relevant: relevant document ids of each, some of them not empty. An id that the corpus
            lacks cannot be found, yet counts in the ideal ranking.
        corpus: document id -> text.

    >>> round(ceiling(["q"], [["a"]], {"a": "x", "b": "x"}), 4)
    0.8155
    """
    copies = Counter(corpus.values())
    same: dict[str, list[set[str]]] = defaultdict(list)
    for query, docs in zip(queries, relevant, strict=True):
        if docs:
            same[query].append(set(docs))
    values = [value for asked in same.values() for value in _perfect(asked, corpus, copies)]
    return math.fsum(values) / len(values)


def _perfect(
    asked: Sequence[set[str]], corpus: Mapping[str, str], copies: Mapping[str, int]
) -> list[float]:
    """Expected nDCG@10 of the best ranking, for each of several queries of one wording."""
    # a query's share of a text: how likely one of its copies is relevant, over the ideal DCG
    shares = [
        {text: n / copies[text] / _dcg(len(docs)) for text, n in texts.items()}
        for docs in asked
        for texts in (Counter(corpus[doc] for doc in docs if doc in corpus),)
    ]
    worth = {text: sum(share.get(text, 0.0) for share in shares) for text in chain(*shares)}
    values, above = [0.0] * len(asked), 0
    for text in sorted(worth, key=lambda text: (-worth[text], text)):
        gain = _dcg(above + copies[text]) - _dcg(above)
        above += copies[text]
        values = [v + share.get(text, 0.0) * gain for v, share in zip(values, shares, strict=True)]
    return values


def _dcg(n: int) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(n, K) + 1))
