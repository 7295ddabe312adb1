"""Exports are told and cleared without OpenVINO; what is not ours is left alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from jfinteb.eval.cache_file import clear
from jfinteb.eval.exports import EXPORTS, exports_in


def export(cache: Path, name: str, **seal: object) -> Path:
    folder = cache / EXPORTS / name
    folder.mkdir(parents=True)
    (folder / "model.xml").write_bytes(b"x" * 10)
    (folder / "model.bin").write_bytes(b"x" * 90)
    if seal:
        (folder / "export.json").write_text(json.dumps(seal), encoding="utf-8")
    return folder


def test_only_our_exports_are_shown_and_cleared(tmp_path: Path) -> None:
    one = export(tmp_path, "1" * 32, model="org/m", revision="r", made="2026-11-30T00:00:00+00:00")
    two = export(tmp_path, "2" * 32, inputs=["input_ids"])  # of an earlier version
    named = export(tmp_path, "my-export", model="org/m")
    more = export(tmp_path, "3" * 32, model="org/m")
    (more / "notes.txt").write_text("mine")
    (tmp_path / EXPORTS / ("4" * 32)).symlink_to(named)
    size = 100 + (one / "export.json").stat().st_size
    found = {each.folder: each for each in exports_in(tmp_path)}
    assert found.keys() == {one, two}
    assert (found[one].model, found[one].revision, found[one].bytes) == ("org/m", "r", size)
    assert found[two].model == ""
    assert clear(tmp_path, "org/m") == ([f"export {'1' * 32} of org/m"], size)
    assert not one.exists() and two.exists()
    clear(tmp_path, "all")
    assert not two.exists() and named.exists() and (more / "model.bin").exists()


def test_what_a_dead_process_left_is_cleared_and_a_living_ones_is_not(tmp_path: Path) -> None:
    living, dead = (export(tmp_path, f".{n * 32}.abcd1234") for n in "12")
    os.utime(dead, (time.time() - 7200,) * 2)
    clear(tmp_path, "all")
    assert living.exists() and not dead.exists()
