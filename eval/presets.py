"""Presets: find one by a model's name, and let the user's own options override it."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.base import EncoderOptions
from jfinteb.eval.models import Preset, missing_packages, read_preset
from jfinteb.eval.models.show import describe, markdown, models_table
from jfinteb.loaders.errors import UsageError

__all__ = [
    "Preset",
    "apply",
    "describe",
    "find_preset",
    "get_preset",
    "looks_like",
    "markdown",
    "missing_packages",
    "models_table",
    "presets",
    "suggest",
]

_CACHED = "models--"  # folders of the hub's cache: models--<org>--<name>/snapshots/<commit>
_TELLING = 4  # characters of a name that others may hold
_MERGED = ("prompts", "routes")
# What a backend can be told. An endpoint cuts texts itself; mteb brings prompts of its own.
_TAKES: Mapping[str, tuple[str, ...]] = {
    "transformers": (
        *(*_MERGED, "max_length", "normalize"),
        *("pooling", "layer", "special_tokens", "pool_prompt"),
    ),
    "sentence-transformers": (*_MERGED, "max_length", "normalize"),
    "lexical": (),
    "api": (*_MERGED, "normalize"),
    "custom": ("prompts", "normalize"),
    "mteb": ("normalize",),
}


@functools.cache
def presets() -> tuple[Preset, ...]:
    """All presets that jfinteb brings, by organisation and size.

    Raises:
        DataError: one of the files is not a preset.
    """
    folder = resources.files("jfinteb.eval.models")
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    found = [read_preset(f.name, f.read_text(encoding="utf-8"), own=False) for f in files]
    return tuple(sorted(found, key=_family))


def find_preset(name: str) -> Preset | None:
    """The preset of a model: by hub id, alias, or id without organisation; case does not count.

    A local folder of that name is a model of its own, and finds none: see `looks_like`.

    >>> find_preset("Ruri-v3-30M").id
    'cl-nagoya/ruri-v3-30m'
    >>> find_preset("cl-tohoku/bert-base-japanese").id
    'tohoku-nlp/bert-base-japanese'
    """
    return None if Path(name).expanduser().is_dir() else _index().get(name.lower())


def get_preset(name: str) -> Preset:
    """The preset that was asked for by name, or by the path of a TOML file.

    Raises:
        UsageError: no such preset or file.
        DataError: the file is not a preset.
    """
    if name.lower().endswith(".toml"):
        try:
            text = Path(name).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UsageError(f"cannot read preset {name}: {reason}") from error
        return read_preset(Path(name).name, text, own=True)
    found = _index().get(name.lower())
    if found is None:
        near = suggest(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `jfinteb models`"
        raise UsageError(f"no preset {name!r}; {hint}")
    return found


def looks_like(path: str | Path) -> Preset | None:
    """The preset that a local folder may be a copy of, for a hint; it is never applied unasked.

    Told by `_name_or_path` in its config.json, which a fine-tuned model has too, by the folder of
    the hub's cache that it lies in, or by its own name.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return None
    whole = folder.resolve()
    cached = [p.removeprefix(_CACHED) for p in whole.parts if p.startswith(_CACHED)]
    declared = _declared_name(folder)
    names = [declared, *(name.replace("--", "/") for name in cached), Path(declared).name]
    known = (_index().get(name.lower()) for name in (*names, whole.name))
    return next((preset for preset in known if preset is not None), None)


def suggest(name: str) -> tuple[str, ...]:
    """Ids of up to three presets whose names are close to a name that none has, or hold it.

    >>> suggest("intfloat/multilingual-e5-smal")[0]
    'intfloat/multilingual-e5-small'
    """
    names = _index()
    near = difflib.get_close_matches(name.lower(), names, n=6, cutoff=0.75)
    if not near and len(name) >= _TELLING:
        near = [known for known in names if name.lower() in known]
    return tuple(dict.fromkeys(names[match].id for match in near))[:3]


def apply(preset: Preset, options: EncoderOptions, given: set[str]) -> EncoderOptions:
    """Options with what the preset says wherever the user has said nothing.

    Prompts, routes and settings merge by key: a role that the user gave a prompt keeps it, also an
    empty one. Pooling and layer are for the transformers backend alone, for the others run a
    model's own modules; settings, and an endpoint's length, for the preset's own backend. Remote
    code is never allowed by a preset, and a dtype never set.

    Args:
        preset: the preset.
        options: as parsed, defaults included.
        given: names of the fields of `options` that the user gave. With `prompts`, `routes` or
            `settings` among them, nothing of the preset is merged into that field.
    """
    backend = options.backend if "backend" in given else preset.backend
    kind = "transformers" if backend == "openvino" else backend  # the same but for the arithmetic
    names = set(_TAKES[kind])
    if kind == preset.backend:
        names |= {"settings"} | ({"max_length"} if kind == "api" else set())
    changes: dict[str, Any] = {"backend": backend}
    for name in names - given:
        value = getattr(preset, name)
        if isinstance(value, Mapping):
            changes[name] = {**value, **getattr(options, name)}
        elif value is not None and (value or kind == "transformers"):
            changes[name] = value  # "not scaled" is the model's own affair, where its modules run
    if find_preset(options.model) is preset:
        changes["model"] = preset.id
    return replace(options, **changes)


def _family(preset: Preset) -> tuple[str, int, str]:
    return preset.id.split("/")[0].lower(), preset.parameters or 0, preset.id.lower()


@functools.cache
def _index() -> Mapping[str, Preset]:
    """Presets by every name that means one of them, in lower case."""
    return _named(presets())


def _named(found: Sequence[Preset]) -> dict[str, Preset]:
    """Ids and aliases, and each short name that belongs to one preset alone."""
    names = {alias.lower(): preset for preset in found for alias in preset.aliases}
    names |= {preset.id.lower(): preset for preset in found}
    shorts = [preset.short.lower() for preset in found]
    for preset, short in zip(found, shorts, strict=True):
        if shorts.count(short) == 1:
            names.setdefault(short, preset)
    return names


def _declared_name(folder: Path) -> str:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""  # what is wrong with it the encoder says
    name = config.get("_name_or_path") if isinstance(config, dict) else None
    return name if isinstance(name, str) else ""
