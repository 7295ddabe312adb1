"""The files of a model, in a local folder or on the hub, and what they declare about its use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.faults import check_shards, fault_of, first_line
from jfinteb.eval.backends.folder import fingerprint
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UnavailableError

__all__ = ["Declared", "ModelFiles"]

_TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "spiece*", "sentencepiece*")
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
# transformers takes a sentencepiece file for a tiktoken one where it cannot read it
_SENTENCEPIECE = re.compile(r"sentencepiece|tiktoken|Error parsing line|\.model\b")
_COVERED = ("Transformer", "Pooling", "Normalize")
_NAMES = {
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What the model's sentence-transformers files say; all empty where it has none."""

    pooling: str | None = None
    pool_prompt: bool = True
    normalize: bool = False
    max_length: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    truncate_dim: int | None = None
    other_modules: tuple[str, ...] = ()

    def cut(self, dimensions: int) -> int | None:
        """The declared `truncate_dim` of vectors so long; above that, the library cuts nothing."""
        kept = self.truncate_dim
        return None if kept is None or 0 < dimensions < kept else kept


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model by hub id or local folder."""

    name: str
    revision: str | None

    @property
    def folder(self) -> Path | None:
        """The local folder, if the model is one."""
        path = Path(self.name).expanduser()
        return path if path.is_dir() else None

    @property
    def location(self) -> str:
        """What the loading libraries are given: the folder with `~` expanded, or the hub id."""
        return self.name if self.folder is None else str(self.folder)

    @property
    def title(self) -> str:
        """The hub id, or the folder's own name: results should not tell where a folder lies."""
        return self.name if self.folder is None else self.folder.resolve().name

    def check(self) -> None:
        """What people meet most with local folders, each with what to do.

        Raises:
            ModelError: the folder is not a model that can be loaded.
        """
        folder = self.folder
        if folder is None:
            if self.name.count("/") > 1 or self.name.startswith((".", "/", "~")):
                raise ModelError(f"no folder {self.name!r}; expected a model folder or a hub id")
            return
        if self.revision is not None:
            raise ModelError(
                f"--revision {self.revision} goes with a hub id, and {self.name} is a folder; "
                "leave it out"
            )
        self.refuse_adapter()
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{self.name} has no config.json; expected a transformers model folder"
            )
        if not any(folder.glob("*.safetensors")):
            pickled = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")]
            found = f"only {pickled[0].name}, which can run code when read" if pickled else "none"
            raise ModelError(
                f"{self.name}: found no weights in safetensors ({found}); save the model with "
                "model.save_pretrained(folder)"
            )
        for path in sorted(folder.glob("*.safetensors")):
            _check_weights(path)
        check_shards(folder, self.name)
        if not any(found for pattern in _TOKENIZERS for found in folder.glob(pattern)):
            raise ModelError(
                f"{self.name} has no tokenizer files; save its tokenizer there with "
                "tokenizer.save_pretrained(folder)"
            )

    def refuse_adapter(self) -> None:
        """Where the weights are elsewhere, no fingerprint or commit of this model tells which.

        Raises:
            ModelError: an adapter over weights of another model.
        """
        adapter = "adapter_config.json"
        # without peft, transformers does not ask the hub for one
        asked = self.local(adapter) is not None or find_spec("peft") is not None
        found = self._json(adapter, dict) if asked else None
        if found is not None:
            base = found.get("base_model_name_or_path")
            raise ModelError(
                f"{self.name} holds an adapter ({adapter}) over weights kept elsewhere ({base}); "
                "merge them with merge_and_unload(), save the model, and give that folder"
            )

    def local(self, name: str) -> Path | None:
        """A file of the model that is here already: in its folder, or in the hub's cache."""
        if self.folder is not None:
            path = self.folder / name
            return path if path.is_file() else None
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            found = try_to_load_from_cache(self.name, name, revision=self.revision)
        except HFValidationError:
            return None
        return Path(found) if isinstance(found, str) else None

    def resolved_revision(self) -> str:
        """The hub commit, or a fingerprint of every file of the folder that can change a vector.

        To be asked once the configuration has been read: the commit is where the cache put it.
        """
        folder = self.folder
        if folder is None:
            from huggingface_hub import try_to_load_from_cache

            config = try_to_load_from_cache(self.name, "config.json", revision=self.revision)
            if isinstance(config, str):
                return Path(config).parent.name
            raise ModelError(f"{self.name}: found no commit in the hub's cache; give --revision")
        return fingerprint(folder, self.name)

    def declared(self) -> Declared:
        """Read the sentence-transformers description that stands beside the weights."""
        modules = self._json("modules.json", list) or []
        kinds = [self._module(module) for module in modules]
        at = next((path for kind, path in kinds if kind == "Pooling"), "1_Pooling")
        pooling = self._json(f"{at}/config.json", dict)
        transformer = self._json("sentence_bert_config.json", dict) or {}
        general = self._json("config_sentence_transformers.json", dict) or {}
        prompts = general.get("prompts") or {}
        limit, kept = transformer.get("max_seq_length"), general.get("truncate_dim")
        if not isinstance(prompts, dict):
            raise self._odd("config_sentence_transformers.json", "prompts", prompts, "an object")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise self._odd("sentence_bert_config.json", "max_seq_length", limit, "a whole number")
        if kept is not None and (type(kept) is not int or kept < 1):
            raise ModelError(
                f"{self.name}: config_sentence_transformers.json: truncate_dim is {kept!r}, "
                "expected a whole number above 0; mend the file"
            )
        return Declared(
            pooling=None if pooling is None else self._mode(pooling, f"{at}/config.json"),
            pool_prompt=bool((pooling or {}).get("include_prompt", True)),
            normalize=any(kind == "Normalize" for kind, _ in kinds),
            max_length=limit,
            lower_case=bool(transformer.get("do_lower_case", False)),
            prompts={str(k): str(v) for k, v in prompts.items() if v},
            truncate_dim=kept,
            other_modules=tuple(kind for kind, _ in kinds if kind not in _COVERED),
        )

    def _module(self, module: Any) -> tuple[str, str]:
        """Kind and folder of a module; one of another package keeps its whole name."""
        kind = module.get("type") if isinstance(module, dict) else None
        path = module.get("path") if isinstance(module, dict) else None
        if not isinstance(kind, str) or not isinstance(path, str):
            raise self._odd("modules.json", "a module", module, "an object with type and path")
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ModelError(
                f"{self.name}: modules.json: a module's path is {path!r}, expected a folder inside "
                "the model; copy it there"
            )
        own = kind.startswith("sentence_transformers.")
        return (kind.rsplit(".", 1)[-1] if own else kind), path

    def _mode(self, config: Mapping[str, Any], file: str) -> str:
        """The pooling that a `1_Pooling/config.json` declares, modes joined by `+`."""
        named = config.get("pooling_mode")
        if named is not None:
            parts = [named] if isinstance(named, str) else named
            if not (isinstance(parts, list) and parts and {type(p) for p in parts} == {str}):
                raise self._odd(file, "pooling_mode", named, "a name or a list of names")
            return "+".join(_NAMES.get(str(part), str(part)) for part in parts)
        flags = {key: value for key, value in config.items() if key.startswith("pooling_mode_")}
        for key, value in flags.items():
            if not isinstance(value, bool):
                raise self._odd(file, key, value, "true or false")
        chosen = [key for key, value in flags.items() if value]
        unknown = [key for key in chosen if key not in _MODES]
        if unknown or not chosen:
            raise self._odd(file, "its pooling", unknown or None, f"one of {', '.join(_MODES)}")
        return "+".join(mode for key, mode in _MODES.items() if key in chosen)

    def _odd(self, file: str, what: str, found: object, expected: str) -> ModelError:
        return ModelError(
            f"{self.name}: {file}: {what} is {found!r}, expected {expected}; give --pooling and "
            "--max-length, and mend or remove the file"
        )

    def _json(self, name: str, kind: type) -> Any:
        """A JSON file of the model, a list or a dict; None if the model does not have it."""
        folder = self.folder
        path = folder / name if folder is not None else self._download(name)
        if path is None or not path.is_file():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{self.name}: {name} is not JSON ({error})") from error
        if not isinstance(value, kind):
            raise self._odd(name, "it", type(value).__name__, f"a JSON {kind.__name__}")
        return value

    def _download(self, name: str) -> Path | None:
        from huggingface_hub import hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError

        try:
            with self.reported():
                return Path(hf_hub_download(self.name, name, revision=self.revision))
        except EntryNotFoundError:
            return None
        except UnavailableError:
            # no network: the cache knows that there is none, or is a whole copy without it
            known = try_to_load_from_cache(self.name, name, revision=self.revision)
            whole = try_to_load_from_cache(self.name, ".gitattributes", revision=self.revision)
            if known is None and not isinstance(whole, str):
                raise UnavailableError(
                    f"cannot reach the hub to see whether {self.name!r} has {name}; "
                    f"{self._meant()}run `hf download {self.name}` once while connected, or give "
                    "a model folder"
                ) from None
            return None

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Turn what the loading libraries raise into one line.

        That a file is not in the repository (`EntryNotFoundError`) is left for the caller.
        """
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            yield
        except JfintebError:
            raise
        except Exception as error:  # loaders raise anything, from KeyError to bare Exception
            absent = isinstance(error, EntryNotFoundError)
            if absent and not isinstance(error, LocalEntryNotFoundError):
                raise
            raise self._told(error) from error

    def _meant(self) -> str:
        """A question for those who have misspelt the name of a model with a preset."""
        from jfinteb.eval.presets import suggest

        near = suggest(self.name)
        return f"did you mean {' or '.join(near)}? Else " if near else ""

    def _told(self, error: Exception) -> JfintebError:
        """What went wrong, by what first raised: transformers wraps the hub's errors in OSError."""
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        def caused_by(*kinds: type[Exception]) -> bool:
            return any(isinstance(cause, kinds) for cause in _causes(error))

        if caused_by(GatedRepoError):
            return UnavailableError(
                f"{self.name} is gated; accept its terms on its page and run `hf auth login`"
            )
        if caused_by(RepositoryNotFoundError, RevisionNotFoundError):
            return UnavailableError(
                f"no model {self.name!r} (revision {self.revision or 'main'}) on the hub and no "
                f"such folder here; {self._meant()}check the name"
            )
        if caused_by(LocalEntryNotFoundError):
            return UnavailableError(
                f"cannot reach the hub for {self.name!r} and it is not in the local cache; give a "
                "model folder, or connect"
            )
        if caused_by(HfHubHTTPError, ConnectionError):
            return UnavailableError(f"cannot reach the hub for {self.name!r}: {first_line(error)}")
        fault = fault_of(self)
        if fault is not None:
            return fault
        if _SENTENCEPIECE.search(str(error)) and not _can_read_sentencepiece():
            return ModelError(
                f"{self.name} has a sentencepiece tokenizer, and sentencepiece or protobuf is not "
                "installed; pip install 'jfinteb[japanese]'"
            )
        if isinstance(error, ImportError):
            return ModelError(
                f"{self.name} needs a package that is not installed: {first_line(error)}; Japanese "
                "tokenizers need pip install 'jfinteb[japanese]'"
            )
        if "trust_remote_code" in str(error):
            return ModelError(
                f"{self.name} brings its own code, which is not run unasked; read it, then give "
                "--trust-remote-code"
            )
        return ModelError(f"cannot load {self.name}: {first_line(error)}")


def _check_weights(path: Path) -> None:
    """What is wrong with a file of weights, told by its header.

    Raises:
        ModelError: it is not whole, or holds whole numbers that nothing says how to read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as weights:
            names = list(weights.keys())
            kinds = {weights.get_slice(name).get_dtype() for name in names}
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} is not whole ({str(error).splitlines()[0]}); download or save it again"
        ) from error
    if names and not any(kind.startswith(("F", "BF")) for kind in kinds):
        raise ModelError(f"{path} holds {', '.join(sorted(kinds))} alone, expected floats")


def _can_read_sentencepiece() -> bool:
    try:
        return None not in (find_spec("sentencepiece"), find_spec("google.protobuf"))
    except ModuleNotFoundError:  # of google, the parent
        return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
