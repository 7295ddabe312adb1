"""Which file of a model is at fault, where the loading libraries only say that something is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jfinteb.eval.encoder import ModelError

if TYPE_CHECKING:
    from jfinteb.eval.backends.model_files import ModelFiles

__all__ = ["check_shards", "fault_of", "first_line"]

_READ = ("config.json", "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json")
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_LONGEST = 300  # characters of a library's message


def fault_of(files: ModelFiles) -> ModelError | None:
    """What is wrong with the files that are there; None: nothing that shows.

    To be asked once loading has failed: sound files of a design that is not known here would be
    taken for wrong ones.
    """
    read: dict[str, Any] = {}
    for name in _READ:
        path = files.local(name)
        if path is None:
            continue
        try:
            read[name] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            return ModelError(
                f"{files.name}: {name} is not whole or not a valid JSON file ({error}); download "
                "or save it again"
            )
        if not isinstance(read[name], dict):
            found = type(read[name]).__name__
            return ModelError(
                f"{files.name}: {name} holds a {found}, expected an object; download or save it "
                "again"
            )
    told = _of_config(read.get("config.json", {})) or _of_tokenizer(files.local("tokenizer.json"))
    return None if told is None else ModelError(f"{files.name}: {told}")


def _of_config(config: Mapping[str, Any]) -> str | None:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for key, value in _dtypes(config):
        if value is not None and value not in _DTYPES:
            return (
                f"config.json: {key} is {value!r}, expected one of {', '.join(_DTYPES)}; write the "
                "one that the weights were saved in"
            )
    if "auto_map" in config:
        return None  # its own code knows the type
    kind = config.get("model_type")
    if kind is None and config:
        return "config.json has no model_type; save the model again with save_pretrained(folder)"
    if config and (not isinstance(kind, str) or kind not in CONFIG_MAPPING):
        return (
            f"config.json: model type {kind!r} is not known to transformers "
            f"{transformers.__version__}; install a newer transformers, or mend the file"
        )
    return None


def _dtypes(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for place in (config, *(value for value in config.values() if isinstance(value, dict))):
        yield from ((key, place[key]) for key in ("dtype", "torch_dtype") if key in place)


def _of_tokenizer(path: Path | None) -> str | None:
    import tokenizers

    if path is None:
        return None
    try:
        tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        return (
            f"tokenizer.json is not one that tokenizers {tokenizers.__version__} reads "
            f"({first_line(error)}); save it again with tokenizer.save_pretrained(folder)"
        )
    return None


def check_shards(folder: Path, name: str) -> None:
    """Compare what an index of weights names with what is there.

    Raises:
        ModelError: a file is missing, or lies outside the folder.
    """
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            parts = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
            inside = [
                not Path(part).is_absolute() and ".." not in Path(part).parts for part in parts
            ]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{name}: {index.name} is not whole ({first_line(error)}); download or save it "
                "again"
            ) from error
        for part, within in zip(parts, inside, strict=True):
            if not within:
                raise ModelError(
                    f"{name}: {index.name} names {part}, which is outside the folder; save the "
                    "model with model.save_pretrained(folder)"
                )
            if not (folder / part).is_file():
                raise ModelError(
                    f"{name}: {index.name} names {part}, which is missing; download it"
                )


def first_line(error: BaseException) -> str:
    r"""Kind and message of an error in one line; a long message ends with a whole word.

    >>> first_line(ValueError("one\n two"))
    'ValueError: one two'
    """
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    return f"{type(error).__name__}: {text or 'no message'}"
