"""What opening a model settles, remembered.

With it nothing of torch is imported to see that all is done, or what there is to do. Only for
folders, and only while every file of the folder that counts, the options, the versions and the
visible devices are what they were; what is to be encoded is encoded by the model itself, opened
anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.base import Embedded, EncoderOptions, Flags, Rows, TextEncoder
from jfinteb.eval.backends.folder import states_of
from jfinteb.eval.encoder import EncoderSpec, ModelError
from jfinteb.loaders.files import write_whole
from jfinteb.loaders.task import Role

__all__ = ["Settled", "recall", "remember"]

_SCHEMA = 2
_PACKAGES = (
    *("jfinteb", "torch", "transformers", "tokenizers", "sentence-transformers", "sentencepiece"),
    *("fugashi", "ipadic", "unidic-lite", "unidic", "mecab-python3", "SudachiPy", "rhoknp"),
    *("tiktoken", "SudachiDict-small", "SudachiDict-core", "SudachiDict-full"),
)
_BACKENDS = ("auto", "transformers", "sentence-transformers")


class Settled(TextEncoder):
    """An encoder that was opened before: it can be planned with, and read from a store."""

    def __init__(self, options: EncoderOptions, values: Mapping[str, Any]) -> None:
        super().__init__(EncoderSpec(**values["spec"]))
        self._options = options
        self.notes = list(values["notes"])
        self.adds_end = bool(values["adds_end"])
        self._dimensions = int(values["dimensions"])
        self._environment = dict(values["environment"])

    @property
    def dimensions(self) -> int:
        """Those of the model."""
        return self._dimensions

    @property
    def environment(self) -> dict[str, str]:
        """That of the model."""
        return self._environment

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """What turns out to be damaged in the store is encoded by the model, opened now.

        Raises:
            ModelError: the model is another one by now.
        """
        from jfinteb.eval.backends import open_encoder

        with closing(open_encoder(self._options)) as encoder:
            same = encoder.spec.vector_digest == self.spec.vector_digest
            if not same or encoder.environment != self.environment:
                raise ModelError(f"{self.spec.model} has changed while it was used; run again")
            yield from encoder.stream(strings, missing, role)


def recall(folder: Path, options: EncoderOptions) -> Settled | None:
    """The encoder of these options as it was settled before; None if it is not known."""
    path = _path(folder, options)
    if path is None:
        return None
    try:
        return Settled(options, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None  # a memory that cannot be read is none


def remember(
    folder: Path, options: EncoderOptions, encoder: TextEncoder, passing: Sequence[str] = ()
) -> None:
    """Keep what opening the encoder has settled, without the `passing` notes, of this run alone."""
    path = _path(folder, options)
    if path is None or not encoder.cacheable or _leans_on_more(encoder):
        return
    try:
        getattr(encoder, "check_files", lambda: None)()
    except ModelError:
        return  # what was opened is not what is there now
    values = {
        "spec": asdict(encoder.spec),
        "notes": [note for note in encoder.notes if note not in passing],
        "adds_end": getattr(encoder, "adds_end", False),
        "dimensions": encoder.dimensions,
        "environment": encoder.environment,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(values, ensure_ascii=False, indent=1))
    except OSError:
        return  # only time is lost


def _leans_on_more(encoder: TextEncoder) -> bool:
    """Whether it follows from code or dictionaries that are not looked at here."""
    named = {*encoder.environment, *encoder.spec.settings}
    # UniDic's dictionary is fetched apart from its package, and its edition is not looked at here
    return "unidic" in named or any(
        name.startswith(("code of ", "mecab dictionary ")) for name in named
    )


def _path(folder: Path, options: EncoderOptions) -> Path | None:
    model = Path(options.model).expanduser()
    if options.backend not in _BACKENDS or not model.is_dir():
        return None
    parts = [_SCHEMA, asdict(options), str(model.resolve()), _files(model), _surroundings()]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return folder / "settled" / f"{digest[:32]}.json"


def _files(folder: Path) -> list[list[str | int]]:
    """The state of every file that can change a vector."""
    return [
        [name.encode("utf-8", "surrogateescape").hex(), *state]
        for name, *state in states_of(folder)
    ]


def _surroundings() -> list[str]:
    """What opening a model depends on beside it."""
    versions = []
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} none")
    devices = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [*versions, platform.platform(), platform.python_version(), *devices, visible]
