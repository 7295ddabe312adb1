"""Code that a model takes from another repository, or from a package that is installed."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.encoder import ModelError

__all__ = ["CODE", "code_elsewhere", "package_versions"]

CODE = "code of "  # before the name of a repository or package, as a setting or version


def code_elsewhere(
    files: ModelFiles, folders: Sequence[str] = ("",), classes: Sequence[str] = ()
) -> dict[str, str]:
    """`"code of <repository>"` -> commit, of what `auto_map` and modules take from elsewhere.

    Neither the model's commit nor a folder's fingerprint tells it. To be asked once the classes
    have been imported: the commit is where the hub's cache has put them.

    Args:
        files: of the model.
        folders: that hold a transformer, below the model's.
        classes: of modules, as `repository--module.Class` where they are another's.

    Raises:
        ModelError: the code lies in another folder, which nothing pins.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    names = [f"{folder}/{name}".lstrip("/") for folder in folders for name in _CONFIGS]
    named = [text for name in names for text in _strings(_read(files, name).get("auto_map"))]
    found: dict[str, str] = {}
    for reference in sorted({*named, *classes}):
        repository, sign, dotted = reference.partition("--")
        if not sign or repository == files.name:
            continue
        if Path(repository).expanduser().is_dir():
            raise ModelError(
                f"{files.name} takes its code from another folder ({reference}); copy the .py "
                f"files beside its config.json and write {dotted!r} there"
            )
        file = f"{dotted.rpartition('.')[0].replace('.', '/')}.py"
        with files.reported():
            cached = try_to_load_from_cache(repository, file)
            if reference in classes:  # these are imported with the weights only
                cached = hf_hub_download(repository, file)
        if isinstance(cached, str):  # else it was not imported: a head that is not used
            parts = Path(cached).parts
            found[CODE + repository] = parts[parts.index("snapshots") + 1]
    return found


_CONFIGS = ("config.json", "tokenizer_config.json")


def _read(files: ModelFiles, name: str) -> dict[str, Any]:
    found: dict[str, Any] = files._json(name, dict) or {}
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def package_versions(folder: Path, classes: Sequence[str]) -> dict[str, str]:
    """`"code of <package>"` -> version, of classes that come from packages installed here.

    Code that lies elsewhere, on the path or of an editable install, is told by a digest of its
    files.
    """
    found: dict[str, str] = {}
    for dotted in classes:
        top = dotted.partition(".")[0]
        if "--" in dotted or not dotted.partition(".")[2] or (folder / f"{top}.py").is_file():
            continue
        for package in metadata.packages_distributions().get(top, ()):
            found[CODE + package] = metadata.version(package)
        if not _is_installed(top):
            found[CODE + top] = _source_digest(top)
    return found


def _places(top: str) -> list[Path]:
    """Where a module or package lies."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    alone = [spec.origin] if spec.origin is not None and spec.has_location else []
    return [Path(place) for place in spec.submodule_search_locations or alone]


def _is_installed(top: str) -> bool:
    """Whether it lies where pip puts packages; others may change under one version."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
    return any(above in place.resolve().parents for place in _places(top) for above in installed)


def _source_digest(top: str) -> str:
    digest = hashlib.sha256()
    for place in _places(top):
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(place.parent)}\0".encode())
            digest.update(path.read_bytes())
    return f"source-{digest.hexdigest()[:16]}"
