"""The modules of a sentence-transformers model, read from its files before any weight is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.base import EncoderOptions
from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import UsageError

__all__ = [
    "Module",
    "check_folder",
    "check_modules",
    "describe",
    "dimensions_of",
    "every",
    "read_modules",
    "routes_of",
    "uncovered",
]

_COVERED = ("Transformer", "Pooling", "Normalize")
_ROUTERS = ("Router", "Asym")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True, slots=True)
class Module:
    """One module.

    Attributes:
        kind: its class: `Dense`, or with the whole dotted name where it is another package's.
        path: its folder below the model's.
        takes: names of what it takes beside the texts' features, such as `task`.
        ways: of a router, the modules of each way, by the way's name.
        tasks: of a router, the tasks that it knows.
        config: what its own configuration file says.
    """

    kind: str
    path: str
    takes: tuple[str, ...] = ()
    ways: Mapping[str, tuple[Module, ...]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reads_text(self) -> bool:
        """Whether it is a transformer with its tokenizer, in whatever package."""
        return self.kind.rsplit(".", 1)[-1] == "Transformer"

    @property
    def foreign(self) -> bool:
        """Whether its class comes with the model, or from a package the model names."""
        return "." in self.kind


def read_modules(files: ModelFiles) -> tuple[Module, ...]:
    """The modules in their order; empty where the model does not say.

    Raises:
        ModelError: files that are there and do not describe modules.
        UnavailableError: they cannot be had.
    """
    listed = files._json("modules.json", list) or []
    return tuple(_module(files, entry, *files._module(entry)) for entry in listed)


def _module(files: ModelFiles, entry: Mapping[str, Any], kind: str, path: str) -> Module:
    takes = entry.get("kwargs") or []
    if not isinstance(takes, list):
        raise files._odd("modules.json", "kwargs", takes, "a list of names")
    if kind in _ROUTERS:
        return _router(files, kind, path)
    own = files._json(f"{path}/config.json", dict) if path and kind in ("Pooling", "Dense") else {}
    return Module(kind, path, tuple(str(name) for name in takes), config=own or {})


def _router(files: ModelFiles, kind: str, path: str) -> Module:
    file = f"{path}/router_config.json".lstrip("/")
    config = files._json(file, dict)
    if config is None:
        file = f"{path}/config.json".lstrip("/")
        config = files._json(file, dict) or {}
    kinds, structure = config.get("types"), config.get("structure")
    if not isinstance(kinds, dict) or not isinstance(structure, dict):
        raise files._odd(file, "it", config, "an object with types and structure")
    inner = {}
    for name, entry in kinds.items():
        entry = {"type": entry, "path": f"{path}/{name}".lstrip("/")}
        inner[name] = _module(files, entry, *files._module(entry))
    try:
        ways = {way: tuple(inner[name] for name in names) for way, names in structure.items()}
    except (KeyError, TypeError):
        raise files._odd(file, "structure", structure, "lists of names in types") from None
    parameters = config.get("parameters") or {}
    mapped = [task for task in ("query", "document") if f"('{task}'" in str(parameters)]
    return Module(kind, path, ("task",), ways, tuple(dict.fromkeys([*ways, *mapped])), parameters)


def every(modules: Sequence[Module]) -> Iterator[Module]:
    """All modules, those inside routers included."""
    for module in modules:
        yield module
        for way in module.ways.values():
            yield from every(way)


def describe(modules: Sequence[Module]) -> str:
    """Their names in order, with what tells pooling and routers apart.

    >>> pooling = Module("Pooling", "1_Pooling", config={"pooling_mode": "mean"})
    >>> describe([Module("Transformer", ""), pooling, Module("Dense", "2_Dense")])
    'Transformer, Pooling(mean), Dense'
    """
    return ", ".join(_named(module) for module in modules)


def _named(module: Module) -> str:
    if module.ways:
        ways = "; ".join(f"{way}: {describe(inner)}" for way, inner in module.ways.items())
        return f"{module.kind}({ways})"
    if module.kind != "Pooling":
        return module.kind
    named = module.config.get("pooling_mode")
    if named is None:
        flags = [key for key, value in module.config.items() if value is True]
        named = [key.removeprefix("pooling_mode_") for key in flags if "pooling_mode_" in key]
        named = [name.removesuffix("_tokens").removesuffix("_token") for name in named]
    modes = [named] if isinstance(named, str) else [str(name) for name in named]
    return f"Pooling({'+'.join(modes) or 'mean'})"


def dimensions_of(modules: Sequence[Module]) -> int:
    """Length of what the last module gives, as its configuration says; 0: it does not.

    >>> dimensions_of([Module("Dense", "2_Dense", config={"out_features": 8})])
    8
    """
    lasting = [m for m in modules if m.kind not in ("Normalize", "LayerNorm", "Dropout")]
    last = lasting[-1] if lasting else Module("", "")
    if last.kind == "Dense":
        found = last.config.get("out_features")
    elif last.kind == "Pooling":
        size = last.config.get("embedding_dimension") or last.config.get("word_embedding_dimension")
        found = size * _named(last).count("+") + size if isinstance(size, int) else 0
    else:
        found = 0
    return found if isinstance(found, int) else 0


def uncovered(modules: Sequence[Module]) -> list[str]:
    """What a transformer pooled and scaled by us would leave out; empty: nothing."""
    other = [module.kind for module in modules if module.kind not in _COVERED]
    moved = [f"{m.kind} in {m.path}" for m in modules if m.kind == "Transformer" and m.path]
    return other + moved


def check_folder(folder: Path, modules: Sequence[Module]) -> None:
    """What people meet most with local folders, each with what to do.

    Raises:
        ModelError: weights that can run code when read, or files that are missing.
    """
    for module in every(modules):
        place = folder / module.path
        if not place.is_dir():
            if module.kind not in ("Normalize", "Dropout"):
                raise ModelError(f"{folder.name} has no folder {module.path} for its {module.kind}")
        elif module.reads_text:
            ModelFiles(str(place), None).check()
        elif not any(place.glob("*.safetensors")):
            pickled = next((f for pattern in _PICKLED for f in place.glob(pattern)), None)
            if pickled is not None:
                raise ModelError(
                    f"{folder.name}/{module.path}: found no weights in safetensors (only "
                    f"{pickled.name}, which can run code when read); save the model with "
                    "model.save_pretrained(folder)"
                )


def check_modules(files: ModelFiles, options: EncoderOptions, modules: Sequence[Module]) -> None:
    """What can be told before any weight is read.

    Raises:
        ModelError: a model that does not give one vector a text, or code that was not allowed.
        UsageError: a limit of tokens for modules that have none.
    """
    general = files._json("config_sentence_transformers.json", dict) or {}
    kind = general.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise ModelError(f"{options.model} is a {kind}, expected one vector a text")
    foreign = [m.kind for m in every(modules) if m.foreign]
    foreign += [
        str(name)
        for m in every(modules)
        if not str(name := m.config.get("activation_function", "torch.")).startswith("torch.")
    ]
    if foreign and not options.trust_remote_code:
        raise ModelError(
            f"{options.model} brings its own code ({foreign[0]}), which is not run unasked; read "
            "it, then give --trust-remote-code"
        )
    if options.max_length is not None and not any(m.reads_text for m in every(modules)):
        raise UsageError(
            f"{options.model} has no limit of tokens ({modules[0].kind}); leave --max-length out"
        )


def routes_of(options: EncoderOptions, modules: Sequence[Module]) -> dict[str, str]:
    """The user's routes; else, of a router that knows queries and documents, those."""
    tasks = [task for module in modules for task in module.tasks]
    wrong = sorted({route for route in options.routes.values() if route} - set(tasks))
    takers = [module for module in modules if "task" in module.takes]
    if wrong and (tasks or not (takers or any(m.foreign for m in modules))):
        known = f"it has {', '.join(tasks)}" if tasks else "it has none; leave the routes out"
        raise UsageError(f"{options.model} has no route {wrong[0]!r}; {known}")
    if options.routes:
        return options.routes
    return {task: task for task in ("query", "document") if task in tasks}
