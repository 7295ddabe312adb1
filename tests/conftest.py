"""What several rooms' tests share: real raw files where they are, and synthetic packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jfinteb.build.__main__ import build
from jfinteb.loaders.task import get_task

Python: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]
JAFIN_ROWS = 1490  # what the card declares


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's vectors, nor another test's."""
    monkeypatch.setenv("JFINTEB_CACHE", str(tmp_path_factory.mktemp("vectors")))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real raw files; tests that need it are skipped where it is absent."""
    folder = os.environ.get("JFINTEB_DATA")
    if not folder:
        pytest.skip("JFINTEB_DATA does not name a folder of raw files")
    return Path(folder)


@pytest.fixture(scope="session")
def package(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of all tasks whose raw files are there, in a folder `retarfi/jfinteb`."""
    out = tmp_path_factory.mktemp("real") / "retarfi" / "jfinteb"
    assert build(data_folder, None, out) == 0
    return out


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(lines, encoding="utf-8")


@pytest.fixture(scope="session")
def sample_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files of our own for the two tasks whose cards declare no content: multifin_ja, jafin."""
    folder = tmp_path_factory.mktemp("raw")
    labels = get_task("multifin_ja").labels
    for split in ("train", "validation", "test"):
        rows = [
            {"id": n, "text": f"{split}の見出し{n}", "label": labels[n % 6], "lang": lang}
            for n, lang in enumerate(["Japanese", "English", "Japanese"] * 6)
        ]
        write_lines(folder / "multifin" / f"{split}.jsonl", rows)
    pairs = [
        {"instruction": f"問{n}", "input": "前提" if n == 0 else "", "output": f"答{n}"}
        for n in range(JAFIN_ROWS)
    ]
    write_lines(folder / "jafin" / "train.jsonl", pairs)
    return folder


@pytest.fixture(scope="session")
def synthetic_package(sample_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of `sample_source`; read it, do not write into it."""
    out = tmp_path_factory.mktemp("made") / "retarfi" / "jfinteb"
    assert build(sample_source, None, out) == 0
    return out


@pytest.fixture
def sample_package(synthetic_package: Path, tmp_path: Path) -> Path:
    """A package of synthetic rows that a test may spoil."""
    return Path(shutil.copytree(synthetic_package, tmp_path / "retarfi" / "jfinteb"))


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Run a Python program in a process of its own: empty Hugging Face home, and offline."""

    def run(
        program: str | list[str], *, executable: str = sys.executable, cwd: Path, **env: str
    ) -> subprocess.CompletedProcess[str]:
        home = tmp_path / f"home{len(list(tmp_path.glob('home*')))}"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PYTHONPATH"))}
        private = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_XET": "1"}
        arguments = ["-c", program] if isinstance(program, str) else program
        return subprocess.run(
            [executable, *arguments],
            cwd=cwd,
            env={**inherited, **private, **env},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return run
