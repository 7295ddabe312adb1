"""What is installed: the lists of setup.cfg, a wheel used elsewhere, and a clone used as it is."""

from __future__ import annotations

import configparser
import fnmatch
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("build", "dataset_cards", "eval", "loaders")
DATA = (".md", ".yaml", ".toml", ".json", "py.typed")


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def pairs(text: str) -> dict[str, str]:
    lines = [line.split("=") for line in text.strip().splitlines()]
    return {key.strip(): value.strip() for key, value in lines}


def dotted(folder: Path) -> str:
    return ".".join(("jfinteb", *folder.relative_to(ROOT).parts))


def test_packages_are_the_folders_with_an_init(setup: configparser.ConfigParser) -> None:
    tree = {dotted(path.parent) for room in ROOMS for path in (ROOT / room).rglob("__init__.py")}
    listed = setup["options"]["packages"].split()
    assert listed == sorted(listed)
    assert set(listed) == tree
    with_code = {dotted(path.parent) for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert with_code <= tree
    assert pairs(setup["options"]["package_dir"]) == {f"jfinteb.{room}": room for room in ROOMS}


def test_package_data_covers_every_data_file(setup: configparser.ConfigParser) -> None:
    patterns = setup["options.package_data"]
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.name.endswith(DATA):
                globs = [g.strip() for g in patterns.get(dotted(path.parent), "").split(",")]
                assert any(fnmatch.fnmatch(path.name, glob) for glob in globs), path


def test_every_pattern_matches_a_file(setup: configparser.ConfigParser) -> None:
    for package, globs in setup["options.package_data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        for glob in globs.split(","):
            assert list(folder.glob(glob.strip())), (package, glob)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a checkout would have."""
    folder = tmp_path_factory.mktemp("clone")
    for name in (*ROOMS, "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "tests"):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / name, ignore=ignored)
        elif source.is_file():
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77", reason="a wheel is built with setuptools")
    out = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", ".", *options, "-w", str(out)]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = out.glob("*.whl")
    return found


def test_wheel_holds_what_is_in_the_tree(wheel: Path) -> None:
    expected = {
        f"jfinteb/{path.relative_to(ROOT).as_posix()}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.name.endswith((".py", *DATA))
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert sum(name.startswith("jfinteb/dataset_cards/") for name in names) == 14
    assert {"jfinteb/loaders/sample.yaml", "jfinteb/eval/metrics/ndcg_at_k/README.md"} <= names
    assert "jfinteb/__init__.py" not in names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, which borrows this one's libraries."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    own = folder / "bin" / "python"
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(own), "install", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [packages] = folder.glob("lib/python*/site-packages")
    # Only after the install: a line of a .pth adds a path, and leaves that path's own .pth alone
    lines = "".join(f"{path}\n" for path in site.getsitepackages())
    (packages / "borrowed.pth").write_text(lines, encoding="utf-8")
    return folder / "bin"


def test_wheel_from_another_folder(installed: Path, python: Any, tmp_path: Path) -> None:
    program = """
import jfinteb.build.hub, jfinteb.eval.cli, jfinteb.loaders as loaders
print(loaders.__file__)
print(len(loaders.task_names()), loaders.load("chabsa", "test", data="sample").num_rows)
"""
    done = python(program, executable=str(installed / "python"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path, counts = done.stdout.splitlines()
    assert Path(path).is_relative_to(installed.parent)
    assert counts == "13 40"


def test_console_script(installed: Path, python: Any, tmp_path: Path) -> None:
    done = python(["tasks"], executable=str(installed / "jfinteb"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("chabsa", "pfmt", "ews_reason"):
        assert name in done.stdout


def test_build_command_of_the_wheel(installed: Path, python: Any, tmp_path: Path) -> None:
    program = ["-m", "jfinteb.build", "--help"]
    done = python(program, executable=str(installed / "python"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--source DIR" in done.stdout


def test_clone_runs_uninstalled(clone: Path, python: Any, tmp_path: Path) -> None:
    # -S with PYTHONPATH: the libraries are there, the editable hook of this environment is not
    paths = ":".join(site.getsitepackages())
    probe = python(["-S", "-c", "import jfinteb"], cwd=tmp_path, PYTHONPATH=paths)
    assert "No module named 'jfinteb'" in probe.stderr
    run = str(clone / "eval" / "run.py")
    done = python(["-S", run, "--help"], cwd=tmp_path, PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: eval/run.py ")
    options = ["--model", "lexical", "--suite", "sample", "--tasks", "ews_horizon", "--dry-run"]
    dry = python(["-S", run, *options], cwd=tmp_path, PYTHONPATH=paths)
    assert dry.returncode == 0, dry.stderr
    assert "ews_horizon" in dry.stdout + dry.stderr
