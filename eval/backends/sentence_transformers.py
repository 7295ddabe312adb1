"""Any sentence-transformers model, run by that library: its own modules, unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer

from jfinteb.eval.backends.as_saved import as_saved
from jfinteb.eval.backends.base import Embedded, EncoderOptions, Flags, Rows, TextEncoder
from jfinteb.eval.backends.batching import BATCH_TOKENS, Fitting, token_budget, units
from jfinteb.eval.backends.custom import as_vectors
from jfinteb.eval.backends.loading import lengths_of, no_random_weights, shorten
from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.backends.modules import (
    Module,
    check_folder,
    check_modules,
    describe,
    dimensions_of,
    every,
    read_modules,
    routes_of,
    uncovered,
)
from jfinteb.eval.backends.own_code import package_versions
from jfinteb.eval.backends.pinned import Pinned
from jfinteb.eval.backends.tokens import length_limit
from jfinteb.eval.backends.transformers import (
    DTYPES,
    cut_note,
    device_of,
    environment_of,
    notes_of,
)
from jfinteb.eval.backends.versions import installed_version, tokenizer_versions
from jfinteb.eval.encoder import EncoderSpec, ModelError, Vectors
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

__all__ = ["NAME", "SentenceTransformersEncoder", "needed_by"]

NAME = "sentence-transformers"
_INSTALL = "pip install 'jfinteb[st]'"
_DEFAULTS: dict[str, Any] = {
    "pooling": "auto",
    "layer": -1,
    "special_tokens": True,
    "pool_prompt": None,
    "settings": {},
}
_CHUNK = 2048  # strings whose tokens are Python lists at a time
_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.gguf")
_HEAVY = (*_WEIGHTS, "*.safetensors", "onnx/*", "openvino/*")


def needed_by(options: EncoderOptions) -> list[str]:
    """What a model has that pooling alone does not cover, by name; empty: nothing."""
    files = ModelFiles(options.model, options.revision)
    folder = files.folder
    if folder is None or not (folder / "modules.json").is_file():
        try:
            files.check()
        except ModelError:
            return []  # told by the backend that then opens it
    return uncovered(read_modules(files))


class SentenceTransformersEncoder(TextEncoder):
    """A model opened with `SentenceTransformer`: its modules, prompts apart, as they are.

    Prompts are ours: a text comes with its prompt, and nothing is added. Where the model keeps the
    prompt out of its pool, the library is given both apart, so that it can. A role's route is given
    as the library's `task`, by which routers and adapters choose.

    Args:
        options: what the user asks for.
        because: why this backend was chosen, if the user did not.
    """

    def __init__(self, options: EncoderOptions, because: Sequence[str] = ()) -> None:
        _check_options(options, because)
        self._files = ModelFiles(options.model, options.revision)
        self._remote_code = options.trust_remote_code
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        folder = self._files.folder
        if folder is None or options.revision or not (folder / "modules.json").is_file():
            self._files.check()
        self._pinned = Pinned(self._files, remote_code=options.trust_remote_code)
        self._folder = folder or self._fetched(_HEAVY)
        self._files.refuse_adapter()
        local = ModelFiles(str(self._folder), None)
        modules = read_modules(local) or _DEFAULT_MODULES
        self._modules = modules
        check_modules(local, options, modules)
        if folder is not None:
            check_folder(folder, modules)
        declared = local.declared()
        self._versions: dict[str, str] = {}
        ends_scaled = modules[-1].kind == "Normalize"
        if ends_scaled and options.normalize is False:
            raise UsageError(
                f"{options.model} scales its vectors itself (Normalize); leave --no-normalize out, "
                "or give --backend transformers"
            )
        text = next((module for module in modules if module.reads_text), None)
        self._device = device_of(options.device)
        self.leaves_cores = self._device.type != "cpu"
        budget = BATCH_TOKENS[self._device.type]
        limit, dtype, ends = options.max_length, options.dtype, True
        if text is not None:
            limit, found, ends, budget = self._limit(options, text, declared.max_length)
            dtype = found if dtype == "auto" else dtype
        code = self._rest(modules, text)
        super().__init__(
            EncoderSpec(
                model=self._files.title,
                revision=self._files.resolved_revision() if folder else self._folder.name,
                backend=NAME,
                pooling=f"modules: {describe(modules)}",
                pool_prompt=declared.pool_prompt,
                prompts=options.prompts,
                max_length=limit,
                truncate_dim=options.dimensions_kept(declared.cut(dimensions_of(modules))),
                normalize=ends_scaled if options.normalize is None else options.normalize,
                dtype="float32" if dtype == "auto" else dtype,
                remote_code=options.trust_remote_code,
                routes=routes_of(options, modules),
                settings=code,
            )
        )
        self._pinned.check()
        self._budget = options.batch_tokens or budget
        self._model: Any = None
        self._dimensions = dimensions_of(modules)
        if self._dimensions:
            self.check_dimensions()
        self.notes = [note for note in notes_of(options, declared, "") if "prompts" in note]
        if options.truncate_dim is None and declared.truncate_dim is not None:
            self.notes.append(cut_note(declared.truncate_dim, self.spec.truncate_dim))
        self._fitting = Fitting(self.spec.model, self._device, self.notes)
        if because:
            self.notes.insert(
                0,
                f"run by sentence-transformers: pooling does not cover {', '.join(because)}",
            )
        if not ends and "lasttoken" in self.spec.pooling:
            self.notes.append("warning: the last token is pooled, and the tokenizer ends no text")
        takers = [module.kind for module in modules if "task" in module.takes]
        if takers and not any(self.spec.routes.values()):
            self.notes.append(f"warning: {takers[0]} takes a task, and no route is given")

    @property
    def dimensions(self) -> int:
        """Length of what the last module gives; loads the weights where no file says it."""
        if not self._dimensions:
            self.load()
        return self._dimensions

    @property
    def environment(self) -> dict[str, str]:
        """Versions of the libraries and of what cuts texts into tokens, and the device."""
        import sentence_transformers

        own = {"sentence-transformers": sentence_transformers.__version__}
        return {**environment_of(self._device), **own, **self._versions}

    def keep_in(self, folder: Path | None) -> None:
        """See `TextEncoder.keep_in`: what is known of the files of a hub's model."""
        self._pinned.kept = folder

    def check_files(self) -> None:
        """Make sure that the files are those that the spec names.

        Raises:
            ModelError: they are not, or not any more.
        """
        self._pinned.check_loaded(self._folder if self._files.folder is None else None)

    def _rest(self, modules: Sequence[Module], opened: Module | None) -> dict[str, str]:
        """Note versions of what the other modules call; returns what code is taken from where."""
        texts = [module for module in every(modules) if module.reads_text]
        trust = self._remote_code
        for module in texts:
            place = self._folder / module.path
            own = ModelFiles(str(place), None)._json("sentence_bert_config.json", dict) or {}
            if own.get("tokenizer_name_or_path"):
                raise ModelError(
                    f"{self._files.name}: sentence_bert_config.json takes the tokenizer from "
                    f"{own['tokenizer_name_or_path']!r}; save it beside the model and remove the "
                    "line"
                )
            if module is not opened:
                with self._files.reported():
                    tokenizer = AutoTokenizer.from_pretrained(str(place), trust_remote_code=trust)
                self._versions |= tokenizer_versions(tokenizer)
        if any(module.kind == "StaticEmbedding" for module in every(modules)):
            self._versions["tokenizers"] = installed_version("tokenizers")
        foreign = [module.kind for module in every(modules) if module.foreign]
        self._versions |= package_versions(self._folder, foreign)
        return self._pinned.code([module.path for module in texts], foreign)

    def _fetched(self, left_out: Sequence[str], revision: str | None = None) -> Path:
        """The hub's copy in the local cache, without some files."""
        from huggingface_hub import snapshot_download

        with self._files.reported():
            return Path(
                snapshot_download(
                    self._files.name,
                    revision=revision or self._files.revision,
                    ignore_patterns=list(left_out),
                )
            )

    def _limit(
        self, options: EncoderOptions, module: Module, declared: int | None
    ) -> tuple[int | None, str, bool, int]:
        """Tokens a text may have, the dtype, whether the tokenizer ends a text, tokens a batch."""
        place = str(self._folder / module.path)
        own = ModelFiles(place, None)._json("sentence_bert_config.json", dict) or {}
        trust = options.trust_remote_code
        with self._files.reported():
            config = AutoConfig.from_pretrained(place, trust_remote_code=trust)
            tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust)
            with torch.device("meta"):
                skeleton = AutoModel.from_config(config, trust_remote_code=trust)
        self._versions |= tokenizer_versions(tokenizer)
        limit = own.get("max_seq_length") if module.path else declared
        found = length_limit(options.max_length, limit, tokenizer, config, skeleton)
        taken = int(tokenizer.num_special_tokens_to_add())
        if found is not None and found <= taken:
            raise UsageError(
                f"max_length {found} leaves no room for a text: {options.model} adds {taken} "
                f"special tokens; give {taken + 1} or more"
            )
        dtype = str(getattr(config, "dtype", None) or torch.float32).removeprefix("torch.")
        special = tokenizer("円", return_special_tokens_mask=True)["special_tokens_mask"]
        budget = token_budget(self._device.type, config.get_text_config())
        return found, dtype, bool(special and special[-1]), budget

    def load(self) -> None:
        """Read the weights (safetensors only), once, and encode a word by every route.

        Raises:
            ModelError: they cannot be read or are not whole, or a route does not exist.
        """
        if self._model is not None:
            return
        from sentence_transformers import SentenceTransformer

        if self._files.folder is None:
            self._folder = self._fetched((*_WEIGHTS, "onnx/*", "openvino/*"), self.spec.revision)
            check_folder(self._folder, self._modules)
        with self._files.reported(), no_random_weights(self._files.name):
            model: Any = SentenceTransformer(
                str(self._folder),
                device=str(self._device),
                trust_remote_code=self._remote_code,
                local_files_only=not self._remote_code,
                model_kwargs={
                    "dtype": getattr(torch, self.spec.dtype),
                    "use_safetensors": True,
                },
            )
            model.eval()
            for part in model.modules():
                self.notes += [n for n in self._keep_tokens(part) if n not in self.notes]
                shorten(part, self.spec.max_length)
            model.truncate_dim = None  # cut by us, so that whole vectors are kept
        self.check_files()
        self._model = model
        found = set()
        routes = sorted({route for role in Role if (route := self.spec.route(role))}) or [""]
        for route in routes:
            with self._files.reported():
                found.add(self._encode(["円"], "", route).shape[1])
        if len(found) > 1:
            raise ModelError(
                f"{self._files.name}: routes give vectors of different lengths {sorted(found)}, "
                "expected one length"
            )
        (self._dimensions,) = found
        self.check_dimensions()

    def _keep_tokens(self, part: Any) -> list[str]:
        """Let a transformer cut texts as its files say; a note where it did not."""
        tokenizer, model = getattr(part, "tokenizer", None), getattr(part, "auto_model", None)
        if model is None or tokenizer is None or hasattr(part, "sub_modules"):
            return []
        place = str(getattr(tokenizer, "name_or_path", "")) or str(self._folder)
        common = {"trust_remote_code": self._remote_code}
        kept, notes = as_saved(tokenizer, ModelFiles(place, None), common)
        if kept is not tokenizer:
            kept.model_max_length = tokenizer.model_max_length
            name = "processor" if getattr(part, "processor", None) is tokenizer else "tokenizer"
            setattr(part, name, kept)
        return notes

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Count tokens once, then run batches of similar length; loads the weights if need be."""
        self.load()
        route, prompt = self.spec.route(role), self.spec.prompt(role)
        lengths, truncated = self._counted(strings, route)

        def encode(rows: Rows) -> Vectors:
            return self._encode([strings[row] for row in rows.tolist()], prompt, route)

        for rows in units(lengths, strings, missing, self._budget):
            if lengths[rows].any():
                vectors = np.concatenate(self._fitting(lengths, rows, encode))
            else:
                vectors = np.zeros((len(rows), self._dimensions), dtype=np.float32)
            yield rows, Embedded(vectors, lengths[rows], truncated[rows])
        self._fitting.give_back()

    def _encode(self, strings: Sequence[str], prompt: str, route: str) -> Vectors:
        apart = 0 if self.spec.pool_prompt else len(prompt)
        found = self._model.encode(
            [text[apart:] for text in strings],
            prompt=prompt[:apart],  # empty, not None: a default prompt of the model is not added
            batch_size=len(strings),
            show_progress_bar=False,
            **({"task": route} if route else {}),
        )
        return as_vectors(found, len(strings), self.spec.model, self._dimensions or None)

    def _counted(
        self, strings: Sequence[str], route: str
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Tokens of each string after cutting, and whether it was cut."""
        reader = self._reader(route)
        tokenizer, limit = (
            getattr(reader, "tokenizer", None),
            getattr(reader, "max_seq_length", None),
        )
        lengths = np.empty(len(strings), dtype=np.int64)
        for start in range(0, len(strings), _CHUNK):
            part = list(strings[start : start + _CHUNK])
            lengths[start : start + len(part)] = lengths_of(tokenizer, part)
        most = limit if limit is not None and limit < np.iinfo(np.int64).max else lengths.max()
        return np.minimum(lengths, int(most)), lengths > most

    def _reader(self, route: str) -> Any:
        """The module that tokenizes texts of a route."""
        first = self._model[0]
        if not hasattr(first, "sub_modules"):
            return first
        way = first._resolve_route(task=route or None, modality="text")
        return first.sub_modules[way][0]


_DEFAULT_MODULES = (
    Module("Transformer", ""),
    Module("Pooling", "", config={"pooling_mode": "mean"}),
)


def _check_options(options: EncoderOptions, because: Sequence[str]) -> None:
    for name, default in _DEFAULTS.items():
        if getattr(options, name) != default:
            flag = name.replace("_", "-")
            raise UsageError(
                f"the {NAME} backend runs a model's own modules and has no {flag}; leave --{flag} "
                "out, or give --pooling to run the transformer without the other modules"
            )
    if options.dtype not in DTYPES:
        raise UsageError(f"no dtype {options.dtype!r}; expected {', '.join(DTYPES)}")
    if find_spec("sentence_transformers") is None:
        why = f" ({', '.join(because)})" if because else ""
        other = ", or give --pooling to run it without them" if because else ""
        raise ModelError(
            f"{options.model} needs sentence-transformers{why}, which is not installed; "
            f"{_INSTALL}{other}"
        )
