"""Any transformers model, pooled as asked or as the model itself declares."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer

from jfinteb.eval.backends.as_saved import as_saved
from jfinteb.eval.backends.base import Embedded, EncoderOptions, Flags, Rows, TextEncoder
from jfinteb.eval.backends.batching import BATCH_TOKENS, Fitting, filled_up, token_budget, units
from jfinteb.eval.backends.lanes import Lanes, lane_count
from jfinteb.eval.backends.model_files import Declared, ModelFiles
from jfinteb.eval.backends.pinned import Pinned
from jfinteb.eval.backends.tokens import Tokenized, Tokens, length_limit
from jfinteb.eval.backends.versions import has_mecab, tokenizer_versions
from jfinteb.eval.backends.weights import accepted, read_network, stop_by, twins
from jfinteb.eval.encoder import EncoderSpec, ModelError
from jfinteb.eval.pooling import check_mode, pool
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

__all__ = ["DTYPES", "TransformersEncoder", "cut_note", "device_of", "environment_of", "notes_of"]

Pooled = list[torch.Tensor]  # a batch on its device, in one part or more
DTYPES = ("float32", "bfloat16", "float16", "auto")
_PROMPT_ROLES = {  # names that models give their prompts
    "query": "query",
    "document": "document",
    "passage": "document",
    "corpus": "document",
    "classification": "classification",
    "clustering": "clustering",
}


class TransformersEncoder(TextEncoder):
    """A model and tokenizer opened with `AutoModel` and `AutoTokenizer`.

    Opening reads configuration and tokenizer only; the weights come with `load()` or the first
    text. Whatever the options leave to the model is settled here and stands in `spec`.
    """

    backend: ClassVar[str] = "transformers"

    def __init__(self, options: EncoderOptions) -> None:
        _check_options(options)
        files = ModelFiles(options.model, options.revision)
        files.check()
        if files.folder is None:
            files.refuse_adapter()
        self._files = files
        self._pinned = Pinned(files, remote_code=options.trust_remote_code)
        self._common = {
            "revision": options.revision,
            "trust_remote_code": options.trust_remote_code,
        }
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        with files.reported():
            self._config = AutoConfig.from_pretrained(files.location, **self._common)
            asked = {**_tokenizer_options(options), **self._common}
            opened = AutoTokenizer.from_pretrained(files.location, **asked)
            self._tokenizer, kept = as_saved(opened, files, asked)
            declared = files.declared()
        if "mecab_dic" in options.settings and not has_mecab(self._tokenizer):
            raise UsageError(
                f"mecab_dic {options.settings['mecab_dic']}: the tokenizer of {options.model} "
                f"({type(self._tokenizer).__name__}) does not use MeCab; leave the setting out"
            )
        self._versions = tokenizer_versions(self._tokenizer)
        with files.reported(), torch.device("meta"):
            skeleton = AutoModel.from_config(
                self._config, trust_remote_code=options.trust_remote_code
            )
        pooling = _pooling(options, declared)
        pool_prompt = declared.pool_prompt if options.pool_prompt is None else options.pool_prompt
        limit = length_limit(
            options.max_length, declared.max_length, self._tokenizer, self._config, skeleton
        )
        hidden = int(self._config.get_text_config().hidden_size)
        own = pooling == (declared.pooling or "mean")  # it is for the vectors of that pooling
        cut = declared.cut(hidden) if own else None
        normalize = declared.normalize if options.normalize is None else options.normalize
        super().__init__(
            EncoderSpec(
                model=files.title,
                revision=files.resolved_revision(),
                backend=self.backend,
                pooling=pooling,
                layer=options.layer,
                special_tokens=options.special_tokens,
                pool_prompt=pool_prompt,
                prompts=options.prompts,
                max_length=limit,
                truncate_dim=options.dimensions_kept(cut),
                normalize=normalize,
                dtype=_dtype_name(options.dtype, self._config),
                remote_code=options.trust_remote_code,
                settings={**options.settings, **self._pinned.code()},
            )
        )
        self._pinned.check()
        if files.folder is None:  # the weights come later, and must be of the same commit
            self._common["revision"] = self.spec.revision
        self._tokens = Tokens(
            self._tokenizer,
            model=options.model,
            limit=limit,
            end="last" in pooling.split("+"),
            special_tokens=options.special_tokens,
            pool_prompt=pool_prompt or not any(options.prompts.values()),
        )
        self._hidden = hidden
        self._check_layer()
        self.check_dimensions()
        self.device = device_of(options.device)
        self.leaves_cores = self.device.type != "cpu"
        self.budget = options.batch_tokens or token_budget(
            self.device.type, self._config.get_text_config()
        )
        self._loaded: torch.nn.Module | None = None
        self._lanes: Lanes[Any] | None = None
        self._stopped = threading.Event()
        self.notes = [*notes_of(options, declared, pooling), *kept]
        if options.truncate_dim is None and declared.truncate_dim is not None:
            self.notes.append(cut_note(declared.truncate_dim, self.spec.truncate_dim))
        if options.max_length is not None and limit is not None and limit < options.max_length:
            self.notes.append(f"max length {limit}: {options.max_length} is more than it can take")
        self._fitting = Fitting(self.spec.model, self.device, self.notes)

    @property
    def dimensions(self) -> int:
        """Hidden size, times the number of joined pooling modes."""
        return self._hidden * len(self.spec.pooling.split("+"))

    @property
    def adds_end(self) -> bool:
        """Whether texts get an end-of-text token that the tokenizer does not give them."""
        return self._tokens.adds_end

    @property
    def environment(self) -> dict[str, str]:
        """Versions of torch, transformers and what cuts texts into tokens, and the device."""
        return {**environment_of(self.device), **self._versions}

    @property
    def kept(self) -> Path | None:
        """See `keep_in`."""
        return self._pinned.kept

    def keep_in(self, folder: Path | None) -> None:
        """See `TextEncoder.keep_in`: what is known of the files of a hub's model."""
        self._pinned.kept = folder

    def check_files(self) -> None:
        """Make sure that the files are those that the spec names.

        Raises:
            ModelError: they are not, or not any more.
        """
        snapshot = None
        if self._files.folder is None:
            config = ModelFiles(self._files.name, self.spec.revision).local("config.json")
            snapshot = None if config is None else config.parent
        self._pinned.check_loaded(snapshot)

    def load(self) -> None:
        """Read the weights (safetensors only), once.

        Raises:
            ModelError: they cannot be read, or layers of the architecture are missing from them.
        """
        if self._loaded is not None:
            return
        network, notes = read_network(self._files, self._config, self.spec.dtype, self._common)
        self.check_files()
        self.notes += notes
        self._accepted = accepted(network)
        if self.device.type == "cpu":
            stop_by(network, self._stopped)
        self._loaded = network.to(self.device).eval()

    def close(self) -> None:
        """Let go of the threads that compute batches; what they are at is given up."""
        if self._lanes is not None:
            self._stopped.set()
            self._lanes.close()
            self._stopped.clear()
            self._lanes = None

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Tokenize once, then run batches of similar length; loads the weights if need be."""
        self.load()
        tokenized = self._tokens(strings, self.spec.prompt(role))
        yield from self._run(tokenized, self.units(tokenized.lengths, strings, missing))
        self._fitting.give_back()

    def units(
        self, lengths: npt.NDArray[np.int64], strings: Sequence[str], missing: Flags
    ) -> Iterator[Rows]:
        """Rows of the missing strings, batch by batch.

        On a CPU all strings of a batch have equal lengths: nothing is padded, and the bits of a
        vector do not depend on what it shares a batch with (where the widths of the layers are
        multiples of 32). Accelerators want large batches more.
        """
        return units(lengths, strings, missing, self.budget, alike=self.device.type == "cpu")

    def _run(
        self, tokenized: Tokenized, batches: Iterable[Rows]
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Batches with their vectors, in order, as the device takes them best."""
        if self.device.type != "cpu":
            return self._one_ahead(tokenized, batches)
        if self._lanes is None:
            wanted = lane_count(self.device)
            self._lanes = Lanes(self._networks(wanted))
            if self._lanes.count < wanted:
                self.notes.append(
                    f"{self._lanes.count} of {wanted} batches computed at once: the network cannot "
                    "be copied for each thread"
                )

        def cost(rows: Rows) -> float:
            return float(len(rows) * int(tokenized.lengths[rows].max()) ** 2)

        return self._lanes(batches, partial(self._computed, tokenized), cost)

    def _one_ahead(
        self, tokenized: Tokenized, batches: Iterable[Rows]
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Have a device compute a batch while the one before is fetched."""
        (network,) = self._networks(1)
        ahead: tuple[Rows, Pooled] | None = None
        for rows in batches:
            launched = rows, self._launch(network, tokenized, rows)
            if ahead is not None:
                yield ahead[0], self._fetched(tokenized, *ahead)
            ahead = launched
        if ahead is not None:
            yield ahead[0], self._fetched(tokenized, *ahead)

    def lengths(self, strings: Sequence[str], role: Role) -> npt.NDArray[np.int64]:
        """Tokens of each string, shape (n,)."""
        return self._tokens(strings, self.spec.prompt(role)).lengths

    def batches(self, groups: Sequence[Sequence[str]], role: Role) -> list[Embedded]:
        """Each group of strings as one batch, which is the caller's to keep within the budget."""
        self.load()
        strings = [text for group in groups for text in group]
        tokenized = self._tokens(strings, self.spec.prompt(role))
        ends = np.cumsum([len(group) for group in groups])
        rows = np.split(np.arange(len(strings)), ends[:-1])
        return [done for _, done in self._run(tokenized, rows)]

    def _networks(self, count: int) -> list[Any]:
        """What computes: as many as asked for, which may do so at once, or fewer."""
        assert self._loaded is not None
        return twins(self._loaded, count)

    def _computed(self, tokenized: Tokenized, network: Any, rows: Rows) -> Embedded:
        return self._fetched(tokenized, rows, self._launch(network, tokenized, rows))

    def _launch(self, network: Any, tokenized: Tokenized, rows: Rows) -> Pooled:
        """Have a batch computed, without waiting for it where a device works by itself."""
        if not tokenized.lengths[rows].any():
            return []  # the tokenizer drops every character
        return self._fitting(
            tokenized.lengths, rows, lambda part: self._forward(network, tokenized, part)
        )

    def _fetched(self, tokenized: Tokenized, rows: Rows, pooled: Pooled) -> Embedded:
        """Wait for a batch. A text without any token has the zero vector."""
        lengths, truncated = tokenized.lengths[rows], tokenized.truncated[rows]
        if not pooled:
            return Embedded(np.zeros((len(rows), self.dimensions), np.float32), lengths, truncated)
        return Embedded(torch.cat([part.cpu() for part in pooled]).numpy(), lengths, truncated)

    @torch.inference_mode()
    def _forward(self, network: Any, tokenized: Tokenized, rows: Rows) -> torch.Tensor:
        taken = rows
        if self.device.type == "cpu":
            taken = filled_up(rows, int(tokenized.lengths[rows].max()))
        inputs = tokenized.batch(taken, self._tokens.pad_values)
        if self.device.type == "cuda":  # pinned, so that copies do not hold up what is computed
            inputs = {name: tensor.pin_memory() for name, tensor in inputs.items()}
        inputs = {k: tensor.to(self.device, non_blocking=True) for k, tensor in inputs.items()}
        pooled, attended = inputs.pop("pooled"), inputs["attention_mask"]
        output = self._states_of(network, inputs)
        vectors = [
            pool(mode, self._states(output, mode), attended, pooled)
            for mode in self.spec.pooling.split("+")
        ]
        return torch.cat(vectors, dim=1)[: len(rows)]

    def _states_of(self, network: Any, inputs: Mapping[str, torch.Tensor]) -> Any:
        """The model's output: `last_hidden_state` and, where they are pooled, `hidden_states`."""
        known = self._accepted  # some tokenizers give token_type_ids to models that have none
        taken = {k: tensor for k, tensor in inputs.items() if known is None or k in known}
        several = "first_last_avg" in self.spec.pooling or self.spec.layer != -1
        return network(**taken, output_hidden_states=several)

    def _states(self, output: Any, mode: str) -> torch.Tensor:
        """The token states that a mode pools."""
        states: torch.Tensor
        if mode == "first_last_avg":
            states = (output.hidden_states[1].float() + output.hidden_states[-1].float()) / 2
        elif self.spec.layer != -1:
            states = output.hidden_states[self.spec.layer]
        else:
            states = output.last_hidden_state
        return states

    def _check_layer(self) -> None:
        layers = int(self._config.get_text_config().num_hidden_layers)
        if not -layers - 1 <= self.spec.layer <= layers:
            raise UsageError(
                f"layer {self.spec.layer}: {self.spec.model} has hidden states 0 (embeddings) to "
                f"{layers}, or -1 for the last back to {-layers - 1}"
            )
        if "first_last_avg" in self.spec.pooling and self.spec.layer != -1:
            raise UsageError("first_last_avg takes its own two layers; leave --layer out")


def _check_options(options: EncoderOptions) -> None:
    if any(options.routes.values()):
        raise UsageError(
            "the transformers backend has no routes; give --backend sentence-transformers, or "
            "leave --route out"
        )
    if options.pooling != "auto":
        check_mode(options.pooling)
    if options.dtype not in DTYPES:
        raise UsageError(f"no dtype {options.dtype!r}; expected {', '.join(DTYPES)}")


def _tokenizer_options(options: EncoderOptions) -> dict[str, Any]:
    """The one setting of this backend: `mecab_dic`, which not every tokenizer's files name."""
    unknown = sorted(options.settings.keys() - {"mecab_dic"})
    if unknown:
        raise UsageError(
            f"the transformers backend has no setting {unknown[0]!r}; it has mecab_dic"
        )
    return {"mecab_kwargs": dict(options.settings)} if options.settings else {}


def _pooling(options: EncoderOptions, declared: Declared) -> str:
    if options.pooling != "auto":
        return options.pooling
    if declared.other_modules:
        raise ModelError(
            f"{options.model} has modules that pooling does not cover "
            f"({', '.join(declared.other_modules)}); give --pooling to run it without them"
        )
    if declared.pooling is not None:
        check_mode(declared.pooling)
    return declared.pooling or "mean"


def cut_note(declared: int, kept: int | None) -> str:
    """What became of the `truncate_dim` that a model's files declare."""
    if kept is None:
        return f"the model's truncate_dim {declared} is not for these vectors, which are whole"
    return f"first {kept} dimensions kept (the model's truncate_dim; --truncate-dim all keeps all)"


def notes_of(options: EncoderOptions, declared: Declared, pooling: str) -> list[str]:
    """What a user should know of what was left to the model's files, and of what they declare."""
    notes = []
    if options.pooling == "auto":
        source = "the model's 1_Pooling" if declared.pooling else "no 1_Pooling config found"
        notes.append(f"pooling {pooling} ({source})")
    elif declared.other_modules:
        notes.append(f"modules of the model not run: {', '.join(declared.other_modules)}")
    if declared.lower_case:
        notes.append("warning: the model declares do_lower_case, which is not applied")
    shown = ", ".join(f"{name}={text!r}" for name, text in declared.prompts.items())
    bare = sorted(
        {role for name in declared.prompts if (role := _PROMPT_ROLES.get(name.lower()))}
        - {role for role, text in options.prompts.items() if text}
    )
    if declared.prompts and not any(options.prompts.values()):
        notes.append(f"warning: the model declares prompts ({shown}) and is run with none")
    elif bare:
        notes.append(
            f"warning: the model declares prompts ({shown}) and is run with none for "
            f"{', '.join(bare)}"
        )
    if not declared.prompts and not any(options.prompts.values()):
        notes.append(
            "no prompts; models such as E5 and Ruri want some and do not declare them, see "
            "`jfinteb models`"
        )
    if options.normalize is None:
        notes.append(
            "vectors scaled to length 1 (the model's Normalize module)"
            if declared.normalize
            else "vectors as the model gives them, not scaled to length 1"
        )
    return notes


def _dtype_name(asked: str, config: Any) -> str:
    if asked != "auto":
        return asked
    found = getattr(config, "dtype", None) or torch.float32
    return str(found).removeprefix("torch.")


def environment_of(device: torch.device) -> dict[str, str]:
    """Versions of torch and transformers, and the name of a device."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": name or device.type,
    }


def device_of(asked: str) -> torch.device:
    """The device of that name, or the best there is for `auto`.

    Raises:
        UsageError: it cannot be used here.
    """
    if asked == "auto":
        if torch.cuda.is_available():
            asked = "cuda"
        else:
            asked = "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(asked)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device {asked!r} is not usable here ({str(error).splitlines()[0]})"
        ) from error
    if device.type not in BATCH_TOKENS:
        raise UsageError(f"device {asked!r}; expected auto, cpu, mps or cuda[:n]")
    return device
