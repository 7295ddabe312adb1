"""Any model that the mteb library knows, with that library's prompts and wrappers."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from jfinteb.eval.backends.as_saved import as_saved
from jfinteb.eval.backends.base import Embedded, EncoderOptions, TextEncoder
from jfinteb.eval.backends.custom import as_vectors, refuse
from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.encoder import EncoderSpec, ModelError
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

__all__ = ["MtebEncoder"]

_OPTIONS = (
    *("pooling", "layer", "special_tokens", "pool_prompt", "routes", "settings"),
    *("max_length", "dtype", "batch_tokens"),
)
_TYPES: Mapping[Role, str] = {
    Role.QUERY: "Retrieval",
    Role.DOCUMENT: "Retrieval",
    Role.CLASSIFICATION: "Classification",
    Role.CLUSTERING: "Clustering",
}
# The library's own words for a task of a kind that has no instruction of its own (mteb 2.x,
# `abstask_prompt`): models that are told what to do are told this.
_INSTRUCTIONS: Mapping[str, str | dict[str, str]] = {
    "Retrieval": {"query": "Retrieve text based on user query.", "document": ""},
    "Classification": "Classify user passages.",
    "Clustering": "Identify categories in user passages.",
}


class MtebEncoder(TextEncoder):
    """A model opened with `mteb.get_model`, encoding as for a Japanese task of each kind.

    The library chooses a model's prompt and adapter by the task's type and, in retrieval, by
    whether a text is a query; it is given a task named after no task of its own, so that prompts
    made for one of its data sets are never used.
    """

    unit = 1024

    def __init__(self, options: EncoderOptions) -> None:
        refuse("mteb", options, _OPTIONS)
        if any(options.prompts.values()):
            raise UsageError("the mteb backend brings its own prompts; leave yours out")
        if find_spec("mteb") is None:
            raise ModelError(
                f"{options.model}: --backend mteb needs mteb, which is not installed; "
                "pip install 'jfinteb[mteb]'"
            )
        self._files = ModelFiles(options.model, options.revision)
        self._meta = self._described(options)
        self._device = None if options.device == "auto" else options.device
        revision = self._meta.revision
        known = revision not in (None, "", "no_revision_available")
        super().__init__(
            EncoderSpec(
                model=str(self._meta.name),
                revision=str(revision) if known else "unknown",
                backend="mteb",
                pooling=f"mteb: {_name(self._meta.loader)}",
                routes={role.value: role.value for role in Role},  # prompts and adapters go by it
                truncate_dim=options.dimensions_kept(),
                normalize=bool(options.normalize),
                remote_code=options.trust_remote_code,
                settings={"mteb": metadata.version("mteb")},
            )
        )
        self.cacheable = known
        self._model: Any = None
        self._dimensions = 0
        if not known:
            self.notes.append("warning: mteb knows no revision of the model; no vector is kept")

    def _described(self, options: EncoderOptions) -> Any:
        """What the library knows of the model.

        Raises:
            ModelError: nothing, or nothing that gives one vector a text.
        """
        mteb: Any = importlib.import_module("mteb")
        with self._files.reported(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                meta = mteb.get_model_meta(options.model, options.revision, fetch_from_hf=False)
            except (KeyError, ValueError) as error:
                raise ModelError(
                    f"{_words(error)} Leave --backend out to run {options.model} without mteb"
                ) from error
        kinds = {str(getattr(kind, "value", kind)) for kind in meta.model_type or ["dense"]}
        if meta.loader is None or "dense" not in kinds:
            raise ModelError(
                f"{options.model} is {'/'.join(sorted(kinds))} in mteb, expected a dense model "
                "that it can load"
            )
        if (
            dict(meta.loader_kwargs or {}).get("trust_remote_code")
            and not options.trust_remote_code
        ):
            raise ModelError(
                f"{options.model} brings its own code, which is not run unasked; read it, then "
                "give --trust-remote-code"
            )
        return meta

    @property
    def dimensions(self) -> int:
        """Length of a vector, found out with one word."""
        self.load()
        return self._dimensions

    @property
    def environment(self) -> dict[str, str]:
        """Versions of the libraries, and the device that was asked for."""
        names = ("mteb", "sentence-transformers", "torch", "transformers")
        versions = {name: metadata.version(name) for name in names}
        return {**versions, "device": self._device or "as mteb chooses"}

    def load(self) -> None:
        """Let the library load the model, encode a word in every role, and say its prompts.

        Raises:
            ModelError: it cannot.
        """
        if self._model is not None:
            return
        with self._files.reported(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self._model = self._meta.load_model(device=self._device)
            except ImportError as error:
                raise ModelError(f"{self.spec.model} in mteb: {_words(error)}") from error
            widths = {self._called(["円"], role).shape[1] for role in Role}
        if len(widths) > 1:
            raise ModelError(f"{self.spec.model}: roles give vectors of lengths {sorted(widths)}")
        (self._dimensions,) = widths
        self.check_dimensions()
        self.notes.append(f"prompts by mteb: {self._prompts()}")
        self.notes += self._other_tokens()

    def embed(self, strings: Sequence[str], role: Role) -> Embedded:
        """What the library's wrapper gives; it does not tell tokens, so none are counted."""
        vectors = self._called(strings, role)
        rows = len(strings)
        return Embedded(vectors, np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=bool))

    def _called(self, strings: Sequence[str], role: Role) -> Any:
        from datasets import Dataset
        from torch.utils.data import DataLoader

        columns = {"text": list(strings)}
        if role is Role.QUERY:
            columns["query"] = list(strings)
        elif role is Role.DOCUMENT:
            columns |= {"body": list(strings), "id": [str(i) for i in range(len(strings))]}
        found = self._model.encode(
            DataLoader(Dataset.from_dict(columns), batch_size=32),
            task_metadata=_task(role),
            hf_split="test",
            hf_subset="default",
            prompt_type=_prompt_type(role),
            batch_size=32,
            show_progress_bar=False,
        )
        return as_vectors(found, len(strings), self.spec.model, self._dimensions or None)

    def _other_tokens(self) -> list[str]:
        """A warning where transformers cuts texts otherwise than the model's files say."""
        inner = getattr(self._model, "model", None)
        parts = inner.modules() if isinstance(inner, torch.nn.Module) else ()
        for tokenizer in (getattr(part, "tokenizer", None) for part in parts):
            place = str(getattr(tokenizer, "name_or_path", "") or "")
            if place and as_saved(tokenizer, ModelFiles(place, None), {})[1]:
                return ["warning: mteb's model cuts texts otherwise than its tokenizer's files say"]
        return []

    def _prompts(self) -> str:
        """What a wrapper of the library with prompts puts before each role's texts."""
        prompts = getattr(self._model, "model_prompts", None)
        if not isinstance(prompts, dict):
            return "in the model's own wrapper"
        models: Any = importlib.import_module("mteb.models.abs_encoder")
        name_of = models.get_prompt_name
        names = {role: name_of(prompts, _task(role), _prompt_type(role)) for role in Role}
        return ", ".join(f"{role} {prompts.get(name) or ''!r}" for role, name in names.items())


@functools.cache
def _task(role: Role) -> Any:
    """The least that a task of the library must say."""
    mteb: Any = importlib.import_module("mteb")
    kind = _TYPES[role]
    return mteb.TaskMetadata(
        name=f"JFinTEB{kind}",
        description=f"Japanese financial texts, {kind.lower()}",
        dataset={"path": "jfinteb", "revision": "1"},
        type=kind,
        prompt=_INSTRUCTIONS[kind],
        eval_langs=["jpn-Jpan"],
        main_score="ndcg_at_10",
        domains=["Financial"],
    )


def _prompt_type(role: Role) -> Any:
    types: Any = importlib.import_module("mteb.types")
    return types.PromptType(role.value) if role in (Role.QUERY, Role.DOCUMENT) else None


def _name(loader: object) -> str:
    return str(getattr(loader, "__name__", type(loader).__name__))


def _words(error: Exception) -> str:
    """The library's words, without the quotes of a KeyError."""
    return " ".join(str(error.args[0] if error.args else error).split())
