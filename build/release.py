"""Whether a package is fit to be published: every reason why it is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jfinteb.build.licenses import LICENSES_FILE, check_licenses
from jfinteb.build.vocabulary import validate, validate_front
from jfinteb.loaders.card import read_front_matter
from jfinteb.loaders.data import load_tables
from jfinteb.loaders.errors import DataError, JfintebError, UsageError
from jfinteb.loaders.manifest import MANIFEST, RAW, Manifest, former_package, parse_package
from jfinteb.loaders.origins import Folder, parquet_path
from jfinteb.loaders.task import Task, get_task

__all__ = ["audit_errors", "faults", "files_of", "read_manifest"]

README = "README.md"


def read_manifest(package: Path) -> Manifest:
    """Task -> split -> rows and digest.

    Raises:
        UsageError: no package folder, or not one of known tasks.
    """
    try:
        return parse_package(package / MANIFEST)
    except ValueError as error:
        kept = former_package(package.absolute())
        hint = f"; a build that was killed keeps the former one in {kept}" if kept else ""
        raise UsageError(
            f"{package} is no package ({error}); expected a folder that python -m jfinteb.build "
            f"wrote{hint}"
        ) from error


def files_of(manifest: Manifest) -> set[str]:
    """Paths of the files that a package with this manifest has, and no others."""
    tasks = [get_task(name) for name in manifest]
    rows = {parquet_path(task, split) for task in tasks for split in task.splits}
    return rows | {MANIFEST, README, LICENSES_FILE}


def faults(package: Path, manifest: Manifest) -> list[str]:
    """Why the package may not be published, one line a reason; empty where it may."""
    tasks = [get_task(name) for name in manifest]
    return [
        *_files(package, manifest),
        *(
            f"{task.name}: its rows may not be redistributed (licence {task.license}); build a "
            "package without it"
            for task in tasks
            if not task.redistributable
        ),
        *(fault for task in tasks for fault in _rows(package, task, manifest[task.name])),
        *(fault for task in tasks for fault in _raw(task, manifest[task.name])),
        *validate(tasks),
        *_readme(package, tasks, manifest),
        *check_licenses(package, manifest),
    ]


def audit_errors(package: Path) -> list[str]:
    """The errors that `jfinteb.build.audit` finds and no card declares, one line each."""
    from jfinteb.build.audit import audit

    return [
        f"{one.task}/{error.split}: {error.check}: {error.count}"
        + (f" ({', '.join(error.ids[:3])})" if error.ids else "")
        for one in audit(package, None)
        for error in one.errors
    ]


def _files(package: Path, manifest: Manifest) -> list[str]:
    """Files that are missing, and files that would be published by mistake."""
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    expected = files_of(manifest)
    return [
        *(f"{name} is missing; build the package again" for name in sorted(expected - found)),
        *(f"{name} is not a package's file; take it out" for name in sorted(found - expected)),
    ]


def _rows(package: Path, task: Task, entry: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Parquet rows, read anew, against the manifest and the card."""
    try:
        tables, digests = load_tables(task, Folder(package))
    except JfintebError as error:
        return [str(error)]
    return [
        f"{task.name}/{split}: the manifest has {entry[split]['rows']} rows of digest "
        f"{str(entry[split]['digest'])[:12]}…, the file {table.num_rows} of {digests[split][:12]}…"
        for split, table in tables.items()
        if (table.num_rows, digests[split]) != (entry[split]["rows"], entry[split]["digest"])
    ]


def _raw(task: Task, entry: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A release that no card pins is told by the checksums of its files in the manifest."""
    if task.recipe is None or task.recipe.revision is None or RAW in entry:
        return []
    return [f"{task.name}: the manifest lacks the checksums of its raw files; build it again"]


def _readme(package: Path, tasks: list[Task], manifest: Manifest) -> list[str]:
    """The README's front matter: the hub's words, and the manifest's configs and counts."""
    expected = {
        config: {split: manifest[task.name][split]["rows"] for split in splits}
        for task in tasks
        for config, splits in task.configs.items()
    }
    paths = {
        config: {split: parquet_path(task, split) for split in splits}
        for task in tasks
        for config, splits in task.configs.items()
    }
    try:
        front, _ = read_front_matter(README, (package / README).read_text(encoding="utf-8"))
        counts = {
            info["config_name"]: {s["name"]: s["num_examples"] for s in info["splits"]}
            for info in front["dataset_info"]
        }
        files = {
            config["config_name"]: {f["split"]: f["path"] for f in config["data_files"]}
            for config in front["configs"]
        }
    except FileNotFoundError:
        return []  # told already
    except (DataError, OSError, ValueError, LookupError, TypeError) as error:
        return [f"{README}: {type(error).__name__} {error}; build the package again"]
    told = validate_front(README, front)
    if counts != expected or files != paths:
        told.append(f"{README} has other configs or rows than {MANIFEST}; build the package again")
    licences = sorted({task.license for task in tasks})
    if front.get("license") != licences:
        told.append(f"{README}: license: found {front.get('license')}, expected {licences}")
    return told
