"""Several ways to use one model's vectors in one run, without encoding again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.base import Embedded, Flags, Rows
from jfinteb.eval.store import keys_of
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

if TYPE_CHECKING:
    from jfinteb.eval.backends.api.usage import Estimate

__all__ = ["Finished", "PooledPart", "open_variants", "parts"]


class _Over(TextEncoder):
    """An encoder over another one."""

    def __init__(self, base: TextEncoder, **changes: Any) -> None:
        super().__init__(replace(base.spec, **changes))
        self.base = base
        self.notes = base.notes  # one list: loading adds to it
        self.cacheable = base.cacheable
        self.leaves_cores = base.leaves_cores

    @property
    def dimensions(self) -> int:
        """Those of the encoder below."""
        return self.base.dimensions

    @property
    def environment(self) -> dict[str, str]:
        """That of the encoder below."""
        return self.base.environment

    def estimate(self, texts: Sequence[str], role: Role) -> Estimate | None:
        """As the encoder below; the first of several pays for all."""
        return self.base.estimate(texts, role)

    def totals(self) -> list[str]:
        """Those of the encoder below."""
        return self.base.totals()

    def keep_in(self, folder: Path | None) -> None:
        """Tell the encoder below."""
        self.base.keep_in(folder)

    def load(self) -> None:
        """Load the encoder below."""
        self.base.load()

    def close(self) -> None:
        """Close the encoder below."""
        self.base.close()

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """The vectors of the encoder below."""
        return self.base.stream(strings, missing, role)


class Finished(_Over):
    """The same raw vectors, cut, scaled or rounded otherwise; they share one place in a store.

    Args:
        base: whose vectors are used.
        changes: of the spec: `truncate_dim`, `normalize`, `precision`.
    """

    def __init__(self, base: TextEncoder, **changes: Any) -> None:
        super().__init__(base, **changes)
        if self.spec.vector_digest != base.spec.vector_digest:
            raise ValueError(f"{', '.join(changes)} change the raw vector")
        self.check_dimensions()


class PooledPart(_Over):
    """One of several pooling modes that go through the model together.

    What the model gives for one mode is kept for all of `siblings`, so that they find it.

    Args:
        joint: an encoder whose pooling is several modes joined by `+`.
        number: of the mode among them.
    """

    def __init__(self, joint: TextEncoder, number: int) -> None:
        modes = joint.spec.pooling.split("+")
        super().__init__(joint, pooling=modes[number])
        self._width = joint.dimensions // len(modes)
        self._columns = slice(number * self._width, (number + 1) * self._width)
        self.siblings: tuple[PooledPart, ...] = ()
        self.check_dimensions()

    @property
    def dimensions(self) -> int:
        """Of one mode."""
        return self._width

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """The columns of this mode."""
        for rows, done in self.base.stream(strings, missing, role):
            for part in self.siblings:
                if part is not self:
                    part.keep([strings[row] for row in rows.tolist()], done, role)
            yield rows, self._own(done)

    def keep(self, strings: Sequence[str], joint: Embedded, role: Role) -> None:
        """Store this mode's columns; what is not finite is found when it is asked for."""
        own = self._own(joint)
        if self.store is not None and np.isfinite(own.vectors).all():
            self.store.put(keys_of(self.spec, role, strings), own)

    def _own(self, joint: Embedded) -> Embedded:
        return replace(joint, vectors=np.ascontiguousarray(joint.vectors[:, self._columns]))


def parts(joint: TextEncoder) -> tuple[PooledPart, ...]:
    """One encoder a mode of a joined pooling, in its order."""
    modes = joint.spec.pooling.split("+")
    found = tuple(PooledPart(joint, number) for number in range(len(modes)))
    for part in found:
        part.siblings = found
    return found


def open_variants(
    options: EncoderOptions,
    poolings: Sequence[str],
    dims: Sequence[int | None],
    precisions: Sequence[str],
    opener: Callable[[EncoderOptions], TextEncoder] = open_encoder,
) -> list[TextEncoder]:
    """An encoder a pooling, dimension and precision, each with each; they share the weights.

    Of several `dims`, None keeps all dimensions; a single one is `options.truncate_dim`.

    Raises:
        UsageError, ModelError, UnavailableError: as `open_encoder`.
    """
    pooled = _pooled(options, poolings, opener)
    as_opened = list(dims) == [options.truncate_dim]  # None is then what the model declares
    if as_opened and list(precisions) == ["float32"]:
        return pooled
    return [
        Finished(
            encoder,
            truncate_dim=encoder.spec.truncate_dim if as_opened else dim or None,
            precision=precision,
        )
        for encoder, dim, precision in itertools.product(pooled, dims, precisions)
    ]


def _pooled(
    options: EncoderOptions,
    modes: Sequence[str],
    opener: Callable[[EncoderOptions], TextEncoder],
) -> list[TextEncoder]:
    """An encoder a pooling mode, in order; as few passes through the model as can be."""
    if len(modes) == 1:
        return [opener(replace(options, pooling=modes[0]))]
    single = [mode for mode in modes if "+" not in mode and mode != "auto"]
    if len(set(single)) < len(modes):
        raise UsageError(
            f"poolings to compare: found {', '.join(modes)}; expected different ones, without + or "
            "auto"
        )
    joint = opener(replace(options, pooling="+".join(modes)))
    if getattr(joint, "adds_end", False):  # for `last` alone; the others are to see plain texts
        others = [mode for mode in modes if mode != "last"]
        found = dict(zip(others, _pooled(options, others, opener), strict=True))
        found["last"] = opener(replace(options, pooling="last"))
        return [found[mode] for mode in modes]
    return [*parts(joint)]
