"""The lexical baseline: hashed character n-grams. No download, no training, no understanding."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from sklearn import __version__ as sklearn_version
from sklearn.feature_extraction.text import HashingVectorizer

from jfinteb.eval.backends.base import Embedded, EncoderOptions, TextEncoder
from jfinteb.eval.encoder import EncoderSpec
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

__all__ = ["DIMENSIONS", "LexicalEncoder"]

DIMENSIONS = 2048
_FIXED = {"pooling": "auto", "layer": -1, "dtype": "float32", "max_length": None, "revision": None}


class LexicalEncoder(TextEncoder):
    """Character 1- to 3-grams of the NFKC, case-folded text, hashed to 2,048 signed buckets.

    A count c enters as sign(c) * log(1 + |c|), which damps long texts; vectors have length 1. What
    it scores is what a task gives away by shared characters alone.
    """

    unit = 4096
    cacheable = False  # quicker to make than to read

    def __init__(self, options: EncoderOptions) -> None:
        if options.model not in ("lexical", "jfinteb/lexical"):
            raise UsageError(f"the lexical backend has no model {options.model!r}; give lexical")
        for name, default in _FIXED.items():
            if getattr(options, name) != default:
                flag = name.replace("_", "-")
                raise UsageError(f"the lexical backend has no {flag}; leave --{flag} out")
        super().__init__(
            EncoderSpec(
                model="jfinteb/lexical",
                revision="1",
                backend="lexical",
                pooling="none",
                prompts=options.prompts,
                truncate_dim=options.dimensions_kept(),
                normalize=options.normalize is not False,
            )
        )
        self.check_dimensions()
        self._hashing = HashingVectorizer(
            analyzer="char", ngram_range=(1, 3), n_features=DIMENSIONS, norm=None, lowercase=False
        )

    @property
    def dimensions(self) -> int:
        """2,048."""
        return DIMENSIONS

    @property
    def environment(self) -> dict[str, str]:
        """The version of what hashes."""
        return {"scikit-learn": sklearn_version}

    def embed(self, strings: Sequence[str], role: Role) -> Embedded:
        """Damped n-gram counts; a "token" is a character."""
        folded = [unicodedata.normalize("NFKC", text).casefold() for text in strings]
        counts = self._hashing.transform(folded)
        counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
        vectors = counts.toarray().astype(np.float32)
        lengths = np.array([len(text) for text in strings], dtype=np.int64)
        return Embedded(vectors, lengths, np.zeros(len(strings), dtype=bool))
