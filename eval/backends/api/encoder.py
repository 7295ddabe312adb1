"""The backend: texts to an endpoint, vectors back, each answer kept as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jfinteb.eval.backends.api.access import access_of
from jfinteb.eval.backends.api.answer import Answer
from jfinteb.eval.backends.api.dispatch import Dispatch
from jfinteb.eval.backends.api.endpoint import Endpoint, check_client
from jfinteb.eval.backends.api.fingerprint import (
    PROBE,
    check_pin,
    fingerprint,
    name_of,
    pinned,
)
from jfinteb.eval.backends.api.fitting import fit
from jfinteb.eval.backends.api.packing import packed
from jfinteb.eval.backends.api.settings import ApiSettings, refuse_unused
from jfinteb.eval.backends.api.tokenizers import open_counter
from jfinteb.eval.backends.api.usage import Estimate, Usage
from jfinteb.eval.backends.base import Embedded, EncoderOptions, Flags, Rows, TextEncoder
from jfinteb.eval.encoder import EncoderSpec, ModelError
from jfinteb.loaders.task import Role

__all__ = ["ApiEncoder"]

_FIRST_RETRIES = 3


class ApiEncoder(TextEncoder):
    """A model behind an OpenAI-compatible interface.

    Opening asks nothing. `identify()` sends one short text, which settles the number of dimensions
    and `spec.revision`: the name that the server gives the model, and a fingerprint of the text's
    vector, so that another model under the same name shares no vector and no result with it.

    Attributes:
        usage: requests, tokens and cost so far.
    """

    leaves_cores = True

    def __init__(self, options: EncoderOptions) -> None:
        refuse_unused(options)
        check_client()
        asked = ApiSettings.of(options)
        self._access = access = access_of(asked)
        self._settings = settings = asked.for_server(paid=access.paid)
        plain = options.model.removeprefix("openai/") if access.paid else options.model
        self._asked = settings.model_name or plain
        named = access.paid and plain.startswith("text-embedding-")
        self._counter = open_counter(settings.tokenizer, plain, at_openai=named)
        super().__init__(
            EncoderSpec(
                model=f"openai/{plain}" if named else name_of("", options.model),
                revision=pinned(options.revision) or "unknown",
                backend="api",
                pooling="server",
                prompts=options.prompts,
                routes=options.routes,
                max_length=options.max_length,
                truncate_dim=options.dimensions_kept(),
                normalize=bool(options.normalize),
                dtype="server",
                settings=self._in_spec(options),
            )
        )
        self._pin = options.revision
        self._dimensions: int | None = None
        self._answered = ""
        self._dispatch = Dispatch(settings.concurrency, settings.inputs)
        self.usage = Usage(price=settings.price, exact=self._counter.exact)
        self.notes = self._first_notes(options)

    @property
    def dimensions(self) -> int:
        """Length of the server's vectors; asks it, if it has not been asked yet."""
        self.identify()
        assert self._dimensions is not None
        return self._dimensions

    def load(self) -> None:
        """The same as `identify`."""
        self.identify()

    def identify(self) -> None:
        """Ask the server for the vector of one short text, once, and settle the spec.

        Raises:
            UsageError: no key; other dimensions than asked; a pinned revision is not this model's.
            UnavailableError: the server cannot be reached, or lets nobody in.
            ModelError: its answer is not a finite vector.
        """
        if self._dimensions is not None:
            return
        one = [np.zeros(1, dtype=np.intp)]
        # a wrong address should not take as many attempts as a fault in the middle of a run
        few = replace(self._settings, retries=min(self._settings.retries, _FIRST_RETRIES))
        with Endpoint(self._access, few, self._asked) as endpoint:
            probe = self._dispatch.run(
                lambda texts: endpoint.submit(texts, ""), [PROBE], one, lambda answer: None
            )
            ((_, answer),) = probe
        if not np.isfinite(answer.vectors).all():
            raise ModelError(f"{self._access.server} gave NaN or infinity for a first text")
        found = answer.vectors.shape[1]
        if self._settings.dimensions not in (0, found):
            raise ModelError(
                f"{self._access.server} was asked for {self._settings.dimensions} dimensions and "
                f"gave {found}; leave them out and give --truncate-dim"
            )
        self._answered = self._access.redacted(answer.model)
        bits = fingerprint(answer.vectors[0])
        if self._pin is None:
            name = name_of(self._answered, self._asked)
            self.spec = replace(self.spec, revision=f"{name}-{bits}")
        else:
            check_pin(self._pin, bits, self._access.server)
        tokens = int(self._counter.count([PROBE])[0])
        self.usage.add(1, tokens, answer.tokens)
        self._dimensions = found
        self.check_dimensions()

    def estimate(self, texts: Sequence[str], role: Role) -> Estimate:
        """What would be sent for these texts, and what it costs; asks the server nothing.

        Where a store is there and the model identified, texts whose vectors are kept do not count.
        """
        prompt = self.spec.prompt(role)
        strings = [prompt + text for text in self.to_encode(texts, role)]
        fitted = fit(self._counter, strings, self.spec.max_length, prompt)
        tokens = int(fitted.tokens.sum())
        return Estimate(len(strings), tokens, self._counter.exact, self._settings.price)

    def totals(self) -> list[str]:
        """What was sent and what it cost, in words; empty if nothing was."""
        return [str(self.usage)] if self.usage.requests else []

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Ask for the missing strings, several requests at once; each answer is a unit.

        Vectors that are not finite come last, once all that is sound has been handed on: whoever
        takes them refuses them, and knows their rows.
        """
        self.identify()
        rows = np.flatnonzero(missing)
        prompt, route = self.spec.prompt(role), self.spec.route(role)
        wanted = [strings[row] for row in rows.tolist()]
        texts = fit(self._counter, wanted, self.spec.max_length, prompt)
        units = packed(texts.tokens, self._dispatch.inputs, self._settings.request_tokens)
        spoiled: tuple[Rows, Embedded] | None = None
        with Endpoint(self._access, self._settings, self._asked) as endpoint:
            for unit, answer in self._dispatch.run(
                lambda part: endpoint.submit(part, route), texts.strings, units, self._check
            ):
                self.usage.add(len(unit), int(texts.tokens[unit].sum()), answer.tokens)
                done = Embedded(answer.vectors, texts.tokens[unit], texts.truncated[unit])
                sound = np.asarray(np.isfinite(answer.vectors).all(axis=1), dtype=bool)
                if sound.any():
                    yield rows[unit[sound]], _part(done, sound)
                if not sound.all():
                    self._dispatch.stop()
                    spoiled = spoiled or (rows[unit[~sound]], _part(done, ~sound))
            if spoiled is not None:
                yield spoiled

    def _check(self, answer: Answer) -> None:
        """Raise ModelError where an answer comes from another model than the first."""
        found, name = answer.vectors.shape[1], self._access.redacted(answer.model)
        if found != self._dimensions:
            raise ModelError(
                f"{self._access.server} gave {found} dimensions after {self._dimensions}; its "
                "vectors cannot be compared"
            )
        if name != self._answered:
            raise ModelError(
                f"{self._access.server} answers as {name!r} after {self._answered!r}: the model "
                "was exchanged midway; run again"
            )

    def _in_spec(self, options: EncoderOptions) -> dict[str, str | int | float | bool]:
        """The settings that change a vector; what is not used is left out."""
        settings = self._settings
        told: dict[str, str | int | float | bool] = {
            "server": self._access.server,
            "encoding_format": settings.encoding_format,
            "dimensions": settings.dimensions,
            "model_name": settings.model_name,
            "azure_deployment": settings.azure_deployment,
            "api_version": self._access.api_version,
            "route_field": settings.route_field if any(options.routes.values()) else "",
            "tokenizer": self._counter.name if options.max_length is not None else "",
        }
        return {name: value for name, value in told.items() if value}

    def _first_notes(self, options: EncoderOptions) -> list[str]:
        notes = [f"vectors from {self._access.server}"]
        if not self._counter.exact:
            what = f"{self._counter.name} stands in for the server's tokenizer: tokens are a guess"
            if options.max_length is not None:
                what += ", and texts are cut by characters"
            notes.append(what)
        if options.max_length is None:
            notes.append("no max length: texts go whole, and what is too long the server decides")
        if options.normalize is None:
            notes.append("vectors as the server gives them, not scaled to length 1")
        return notes


def _part(done: Embedded, flags: Flags) -> Embedded:
    return Embedded(done.vectors[flags], done.tokens[flags], done.truncated[flags])
