"""What tests of the loaders share: a package with every config that can be built here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jfinteb.build.__main__ import build
from jfinteb.loaders.task import task_names


@pytest.fixture(scope="session")
def every_package(sample_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tasks and their clean variants: real rows where they are, and rows of our own.

    Without real raw files it has the two tasks of `sample_source`, and their clean variants.
    """
    raw = tmp_path_factory.mktemp("raw-of-all")
    real = os.environ.get("JFINTEB_DATA")
    for folder in (sample_source, *([Path(real)] if real else [])):
        for entry in folder.iterdir():
            (raw / entry.name).symlink_to(entry.resolve())
    names = task_names() if real else ("jafin", "multifin_ja")
    out = tmp_path_factory.mktemp("all") / "retarfi" / "jfinteb"
    assert build(raw, [*names, *(f"{name}_clean" for name in names)], out) == 0
    return out
