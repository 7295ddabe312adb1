"""Versions of the packages that cut a text into tokens, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfinteb.loaders.files import sha256_of

__all__ = ["has_mecab", "installed_version", "tokenizer_versions"]

_PACKAGES = {  # of the objects inside a tokenizer, by module
    "tokenizers": "tokenizers",
    "sentencepiece": "sentencepiece",
    "fugashi": "fugashi",
    "MeCab": "mecab-python3",
    "sudachipy": "SudachiPy",
    "rhoknp": "rhoknp",
    "tiktoken": "tiktoken",
}
_DICTIONARIES = {"ipadic": "ipadic", "unidic_lite": "unidic-lite", "unidic": "unidic"}
_OF_SUDACHI = ("SudachiDict-small", "SudachiDict-core", "SudachiDict-full")
_DEPTH = 3  # a tokenizer, its word tokenizer, the tagger in that
_OPENED = ("transformers", "transformers_modules")


def tokenizer_versions(tokenizer: Any) -> dict[str, str]:
    """Package -> version of what a tokenizer calls, MeCab's dictionary among it.

    A dictionary that is no known package's is told by the hash of its file.
    """
    found: dict[str, str] = {}
    for part in _parts(tokenizer, _DEPTH):
        package = _PACKAGES[_package(part)]
        found[package] = installed_version(package)
        if package == "SudachiPy":  # which of them it reads, it does not say
            known = {name: installed_version(name) for name in _OF_SUDACHI}
            found |= {name: version for name, version in known.items() if version != "unknown"}
        for dictionary in getattr(part, "dictionary_info", None) or ():
            found |= _dictionary(Path(str(dictionary["filename"])))
    return dict(sorted(found.items()))


def has_mecab(tokenizer: Any) -> bool:
    """Whether a tokenizer asks MeCab for words."""
    return any(_package(part) in ("fugashi", "MeCab") for part in _parts(tokenizer, _DEPTH))


def installed_version(package: str) -> str:
    """The version of an installed distribution; `unknown` where it does not say."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _package(part: Any) -> str:
    return type(part).__module__.partition(".")[0]


def _parts(whole: Any, depth: int) -> Iterator[Any]:
    """Objects of known packages inside a tokenizer, through objects of transformers."""
    if _package(whole) in _PACKAGES:
        if type(whole).__name__ != "AddedToken":  # only a string with its flags
            yield whole
    elif depth and (_package(whole) in _OPENED or depth == _DEPTH):
        for inner in getattr(whole, "__dict__", {}).values():
            yield from _parts(inner, depth - 1)


def _dictionary(file: Path) -> dict[str, str]:
    for module, package in _DICTIONARIES.items():
        spec = find_spec(module)
        folders = (spec.submodule_search_locations or ()) if spec is not None else ()
        if any(Path(folder).resolve() in file.resolve().parents for folder in folders):
            edition = _edition(file) if module == "unidic" else ""  # fetched apart from its package
            return {package: installed_version(package) + edition}
    try:
        return {f"mecab dictionary {file.name}": sha256_of(file)[:16]}
    except OSError:
        return {f"mecab dictionary {file.name}": "unknown"}


def _edition(file: Path) -> str:
    """What a dictionary says of itself."""
    try:
        said = (file.parent / "version").read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return ""
    return f" ({' '.join(said)[:60]})" if said else ""
