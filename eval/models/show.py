"""Presets as people read them: a table, one in full, and the tables of docs/models.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table

from jfinteb.eval.models import Preset, missing_packages
from jfinteb.loaders.task import Role

__all__ = ["describe", "markdown", "models_table"]

_MISSING = "–"


def models_table(found: Sequence[Preset]) -> Table:
    """One line a preset, for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    names = ("model", "parameters", "dims", "tokens", "backend", "prompts", "code", "published")
    for name in names:
        right = name in ("parameters", "dims", "tokens")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for preset in found:
        table.add_row(
            preset.id,
            _size(preset.parameters),
            _number(preset.dimensions),
            _number(preset.max_length),
            preset.backend,
            _prompted(preset),
            "its own" if preset.remote_code else "",
            "yes" if preset.published else "",
        )
    return table


def describe(preset: Preset) -> str:
    """All that is known of a model, a line each; prompts are quoted, so that spaces show."""
    prompts = [f"{role:14} {preset.prompts[role]!r}" for role in _roles(preset.prompts)]
    routes = [f"{role:14} {preset.routes[role]}" for role in _roles(preset.routes)]
    missing = missing_packages(preset)
    packages = [name + (" (not installed)" if name in missing else "") for name in preset.packages]
    lines: list[tuple[str, Iterable[str | None]]] = [
        ("title", [preset.title]),
        ("also", preset.aliases),
        ("backend", [preset.backend]),
        ("pooling", [preset.pooling or "the model's own"]),
        ("prompts", prompts or ["none known"]),
        ("routes", routes),
        ("settings", [f"{key} = {value!r}" for key, value in preset.settings.items()]),
        ("tokens", [_number(preset.max_length)]),
        ("dimensions", [_number(preset.dimensions)]),
        ("cut to", [", ".join(map(str, preset.matryoshka))] if preset.matryoshka else []),
        ("length 1", [_truth(preset.normalize, "yes", "no", "as the model's files say")]),
        ("dtype", [preset.dtype] if preset.dtype else []),
        ("packages", packages),
        ("parameters", [f"{preset.parameters:,}" if preset.parameters else _MISSING]),
        ("licence", [preset.licence or _MISSING]),
        ("remote code", [_truth(preset.remote_code, "needed: --trust-remote-code", "none")]),
        (
            "benchmark",
            [f"in its training: {preset.trained_on_benchmark}", preset.trained_why or ""],
        ),
        ("published", [preset.published or "no scores by the authors"]),
        ("notes", preset.notes),
        ("sources", _source_lines(preset)),
        ("checked", [str(preset.checked or _MISSING)]),
    ]
    shown = [preset.id]
    for label, texts in lines:
        for i, text in enumerate(text for text in texts if text):
            shown.append(f"  {'' if i else label:12} {text}")
    return "\n".join(shown)


def markdown(found: Sequence[Preset]) -> str:
    """The two tables of docs/models.md, which a test compares with the files."""
    heads = [
        *("Model", "Parameters", "Dimensions", "Tokens", "Backend", "Pooling", "Length 1"),
        *("Packages", "Own code", "Licence", "Published"),
    ]
    rows = [
        (
            f"[{preset.id}]({_address(preset)})",
            _size(preset.parameters),
            _number(preset.dimensions),
            _number(preset.max_length),
            preset.backend,
            preset.pooling or "own",
            _truth(preset.normalize, "yes", "no", "own"),
            ", ".join(preset.packages) or _MISSING,
            _truth(preset.remote_code, "yes", "no"),
            preset.licence or _MISSING,
            "yes" if preset.published else "",
        )
        for preset in found
    ]
    spoken = [p for p in found if any(p.prompts.values()) or p.routes]
    roles = [role.value for role in Role]
    said = [(preset.short, *(_cell(preset, role) for role in roles)) for preset in spoken]
    return _rows(heads, rows) + "\n\n" + _rows(("Model", *roles), said) + "\n"


def _roles(values: Mapping[str, str]) -> list[str]:
    return [role.value for role in Role if role.value in values]


def _source_lines(preset: Preset) -> list[str]:
    """Addresses, each with the facts that were taken from it."""
    facts: dict[str, list[str]] = {}
    for fact, addresses in preset.sources.items():
        for address in addresses:
            facts.setdefault(address, []).append(fact)
    return [f"{address} ({', '.join(names)})" for address, names in facts.items()]


def _prompted(preset: Preset) -> str:
    if not preset.prompts:
        return "none known"
    return "by role" if any(preset.prompts.values()) else "none"


def _address(preset: Preset) -> str:
    if preset.backend == "api":
        return next(iter(preset.sources["normalize"]))
    return f"https://huggingface.co/{preset.id}"


def _cell(preset: Preset, role: str) -> str:
    prompt = preset.prompts.get(role, "").replace("\n", "\\n")
    route = preset.routes.get(role, "")
    return " ".join([f'`"{prompt}"`' if prompt else "none", *([f"via {route}"] if route else [])])


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def _size(parameters: int | None) -> str:
    if parameters is None:
        return _MISSING
    if parameters >= 1_000_000_000:
        return f"{parameters / 1e9:.2f}B"
    return f"{parameters / 1e6:.0f}M"


def _number(value: int | None) -> str:
    return _MISSING if value is None else f"{value:,}"


def _truth(value: bool | None, yes: str, no: str, unknown: str = _MISSING) -> str:
    if value is None:
        return unknown
    return yes if value else no
