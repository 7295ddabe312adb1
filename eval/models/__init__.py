"""What a preset is: one TOML file a model, read strictly, every fact with its source."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from importlib.util import find_spec
from typing import Any

from jfinteb.loaders.card import CardReader
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.task import Role

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["BACKENDS", "FACTS", "Preset", "Setting", "missing_packages", "read_preset"]

Setting = str | int | float | bool

_IMPORTS = {"protobuf": "google.protobuf"}  # where "_" for "-" is not all

BACKENDS = ("transformers", "sentence-transformers", "api", "mteb", "custom")
# What is taken from a model's makers, and so has a source. The rest names, or is our choice.
FACTS = (
    "pooling",
    "layer",
    "special_tokens",
    "pool_prompt",
    "prompts",
    "routes",
    "settings",
    "max_length",
    "dimensions",
    "matryoshka",
    "normalize",
    "dtype",
    "packages",
    "parameters",
    "licence",
    "remote_code",
    "trained_on_benchmark",
    "published",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How a model's makers mean it to be used; None or empty: not known, or the model's own.

    Attributes:
        id: hub id, or `openai/<name>` for a model behind an endpoint.
        title: name for people.
        aliases: other names that find the preset.
        backend: a name of `BACKENDS`.
        pooling: how token states become one vector; see `jfinteb.eval.pooling`.
        layer: hidden layer that is pooled.
        special_tokens: whether special tokens are in the pool.
        pool_prompt: whether the prompt's tokens are in the pool.
        prompts: role -> text before every text of that role, trailing spaces included.
        routes: role -> the model's own adapter for texts of that role.
        settings: what else the backend is told.
        max_length: tokens.
        dimensions: of the whole vector.
        matryoshka: smaller dimensions that the model was trained to be cut to.
        normalize: whether its makers scale vectors to length 1.
        dtype: advice; nothing is set by it.
        packages: pip packages beyond those that jfinteb installs.
        parameters: number of weights.
        licence: of the weights.
        remote_code: whether code of the model's repository must run.
        trained_on_benchmark: yes, no or unknown.
        trained_why: what that rests on.
        published: row of the authors' published results.
        notes: what a user should know.
        sources: fact -> addresses it was taken from.
        checked: when.
    """

    id: str
    title: str
    aliases: tuple[str, ...] = ()
    backend: str = "transformers"
    pooling: str | None = None
    layer: int | None = None
    special_tokens: bool | None = None
    pool_prompt: bool | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    max_length: int | None = None
    dimensions: int | None = None
    matryoshka: tuple[int, ...] = ()
    normalize: bool | None = None
    dtype: str | None = None
    packages: tuple[str, ...] = ()
    parameters: int | None = None
    licence: str | None = None
    remote_code: bool | None = None
    trained_on_benchmark: str = "unknown"
    trained_why: str | None = None
    published: str | None = None
    notes: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checked: date | None = None

    @property
    def short(self) -> str:
        """The id without its organisation."""
        return self.id.rsplit("/", 1)[-1]


def read_preset(name: str, text: str, *, own: bool) -> Preset:
    """Read a preset.

    Args:
        name: of the file, for messages.
        text: TOML.
        own: whether it is a user's own, which needs no sources. That a shipped one names a pooling
            that exists is for the tests, so that a list of presets does not import torch.

    Raises:
        DataError: one line that names file and key.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: not TOML: {error}") from error
    reader = CardReader(name, values)
    reader.expect_known(f.name for f in fields(Preset))
    ident = reader.text("id")
    preset = Preset(
        id=ident,
        title=reader.optional_text("title") or ident.rsplit("/", 1)[-1],
        aliases=_texts(reader, "aliases"),
        backend=reader.choice("backend", BACKENDS) if "backend" in values else "transformers",
        pooling=reader.optional_text("pooling"),
        layer=_layer(reader),
        special_tokens=_flag(reader, "special_tokens"),
        pool_prompt=_flag(reader, "pool_prompt"),
        prompts=_by_role(reader, "prompts"),
        routes=_by_role(reader, "routes"),
        settings=_settings(reader),
        max_length=reader.optional_count("max_length"),
        dimensions=reader.optional_count("dimensions"),
        matryoshka=_matryoshka(reader),
        normalize=_flag(reader, "normalize"),
        dtype=reader.optional_text("dtype"),
        packages=_texts(reader, "packages"),
        parameters=reader.optional_count("parameters"),
        licence=reader.optional_text("licence"),
        remote_code=_flag(reader, "remote_code"),
        trained_on_benchmark=(
            reader.choice("trained_on_benchmark", ("yes", "no", "unknown"))
            if "trained_on_benchmark" in values
            else "unknown"
        ),
        trained_why=reader.optional_text("trained_why"),
        published=reader.optional_text("published"),
        notes=_texts(reader, "notes"),
        sources=_sources(reader),
        checked=_date(reader),
    )
    if own:
        _check_pooling(name, preset)
    else:
        _check_sources(reader, preset)
    return preset


def missing_packages(preset: Preset) -> tuple[str, ...]:
    """The preset's pip packages that cannot be imported here."""
    return tuple(name for name in preset.packages if not _importable(name))


def _importable(package: str) -> bool:
    try:
        return find_spec(_IMPORTS.get(package, package.replace("-", "_"))) is not None
    except ModuleNotFoundError:  # of a dotted name, whose parent is not there
        return False


def _flag(reader: CardReader, key: str) -> bool | None:
    return reader.flag(key) if key in reader.values else None


def _texts(reader: CardReader, key: str) -> tuple[str, ...]:
    return reader.texts(key) if key in reader.values else ()


def _layer(reader: CardReader) -> int | None:
    value = reader.values.get("layer")
    reader.expect("layer", value is None or type(value) is int, "a whole number")
    return value


def _date(reader: CardReader) -> date | None:
    value = reader.values.get("checked")
    reader.expect("checked", value is None or type(value) is date, "a date such as 2026-11-30")
    return value


def _matryoshka(reader: CardReader) -> tuple[int, ...]:
    values = reader.values.get("matryoshka", [])
    whole = isinstance(values, list) and all(type(v) is int and v > 0 for v in values)
    reader.expect("matryoshka", whole, "a list of whole numbers above 0")
    below = reader.values.get("dimensions")
    if below is not None:
        reader.expect("matryoshka", all(v < below for v in values), f"numbers below {below}")
    return tuple(values)


def _by_role(reader: CardReader, key: str) -> dict[str, str]:
    section = reader.optional_section(key)
    section.expect_known(role.value for role in Role)
    for role, text in section.values.items():
        section.expect(role, isinstance(text, str), "text (quote it)")
    return dict(section.values)


def _settings(reader: CardReader) -> dict[str, Setting]:
    section = reader.optional_section("settings")
    for key, value in section.values.items():
        section.expect(key, type(value) in (str, int, float, bool), "text, a number or true/false")
    return dict(section.values)


def _sources(reader: CardReader) -> dict[str, tuple[str, ...]]:
    section = reader.optional_section("sources")
    section.expect_known(FACTS)
    found: dict[str, tuple[str, ...]] = {}
    for key, value in section.values.items():
        addresses: Any = [value] if isinstance(value, str) else value
        good = isinstance(addresses, list) and bool(addresses)
        good = good and all(isinstance(a, str) and a.startswith("https://") for a in addresses)
        section.expect(key, good, "an address (https://…), or a list of some")
        found[key] = tuple(addresses)
    return found


def _check_pooling(name: str, preset: Preset) -> None:
    if preset.pooling in (None, "auto"):
        return
    from jfinteb.eval.pooling import check_mode

    try:
        check_mode(preset.pooling)
    except UsageError as error:
        raise DataError(f"{name}: pooling: {error}") from error


def _check_sources(reader: CardReader, preset: Preset) -> None:
    stated = {fact for fact in FACTS if fact in reader.values}
    for fact in (*stated - set(preset.sources), *set(preset.sources) - stated):
        where = "no source" if fact in stated else "a source and no fact"
        raise DataError(f"{reader.name}: {fact}: found {where}, expected both or neither")
    if preset.checked is None:
        raise DataError(f"{reader.name}: checked: missing, expected a date")
    if preset.trained_why is None:
        raise DataError(f"{reader.name}: trained_why: missing, expected what it rests on")
    missing = [role.value for role in Role if role.value not in preset.prompts]
    if preset.prompts and missing:
        raise DataError(
            f"{reader.name}: prompts: no {', '.join(missing)}; expected every role, with "
            'prompt "" where there is none'
        )
