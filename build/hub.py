"""Write a package folder: parquet files and the README that `load_dataset` reads.

The package is made beside its final name and put there whole; equal rows give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from filelock import FileLock

from jfinteb.build.licenses import LICENSES_FILE, package_licenses
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.manifest import MANIFEST, RAW, split_entries
from jfinteb.loaders.origins import parquet_path
from jfinteb.loaders.schema import check_relevance, verify
from jfinteb.loaders.task import CORPUS, Task, get_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_out", "write_package"]

_WORK = ".building-"
_ENTRIES = {MANIFEST, "README.md", LICENSES_FILE, "data"}
Tables = Mapping[str, "pa.Table"]
Raw = Mapping[str, Mapping[str, str]]


def write_package(
    out: Path, tables: Mapping[str, Tables], raw: Raw | None = None
) -> dict[str, Any]:
    """Write tasks into a package; tasks that it already holds and that are not given stay.

    Args:
        out: the package folder; made, or replaced as a whole, at the end.
        tables: task name -> split -> rows (`make_table`).
        raw: task name -> path -> SHA-256 of the raw files, where no card tells it.

    Returns:
        The manifest; see `jfinteb.loaders.manifest`.

    Raises:
        UsageError: `out` is a folder that is not a package, or cannot be written.
        DataError: rows that do not satisfy their card.
    """
    out = out.resolve()  # has a name of its own, also where it was given as `.` or as a link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # two builds into one package take turns, else the second loses what the first adds
        with FileLock(_lock_file(out)):
            return _write_locked(out, tables, raw or {})
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error


def _lock_file(out: Path) -> Path:
    """A file of this user and package, away from `out`: filelock may leave it behind."""
    name = hashlib.sha256(f"{Path.home()}\0{out}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"jfinteb-{name}.lock"


def _write_locked(out: Path, tables: Mapping[str, Tables], raw: Raw) -> dict[str, Any]:
    _recover(out)
    manifest = _read_manifest(out)
    _clear_killed(out)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}{_WORK}", dir=out.parent))
    try:
        if manifest:
            shutil.copytree(out / "data", work / "data")
        for name, splits in tables.items():
            manifest[name] = _write_task(work, get_task(name), splits)
            if name in raw:
                manifest[name][RAW] = dict(raw[name])
        manifest = {name: manifest[name] for name in sorted(manifest)}
        _write_text(work / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        _write_text(work / "README.md", readme(manifest, work))
        _write_text(work / LICENSES_FILE, package_licenses(manifest))
        work.chmod(0o755)
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return manifest


def check_out(out: Path) -> None:
    """Raise UsageError, before any work, if `out` is a folder of something else."""
    _read_manifest(out)


def _read_manifest(out: Path) -> dict[str, Any]:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return {}
    try:
        manifest: dict[str, Any] = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or not manifest:
            raise ValueError("its manifest names no task")
        known = {
            out / parquet_path(get_task(name), split)
            for name in manifest
            for split in split_entries(manifest[name])
        }
        files = {path for path in (out / "data").rglob("*") if not path.is_dir()}
        foreign = sorted(
            {entry.name for entry in out.iterdir()} - _ENTRIES
            | {str(path.relative_to(out)) for path in files - known}
        )
        if foreign or not all(
            set(get_task(name).splits) == set(split_entries(manifest[name])) for name in manifest
        ):
            raise ValueError(f"it holds {', '.join(foreign) or 'another manifest'}")
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise UsageError(
            f"{out} exists and is no jfinteb package ({error}); give --out another folder"
        ) from error
    return manifest


def _write_task(work: Path, task: Task, splits: Tables) -> dict[str, Any]:
    import pyarrow.parquet as pq

    entry: dict[str, Any] = {}
    for split, table in splits.items():
        digest = verify(task, split, table)
        if CORPUS in splits:
            check_relevance(task, split, table, splits[CORPUS])
        path = work / parquet_path(task, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd", version="2.6", write_statistics=False)
        entry[split] = {"rows": table.num_rows, "digest": digest}
    return entry


def _old(out: Path) -> Path:
    return out.with_name(f".{out.name}.old")


def _recover(out: Path) -> None:
    """Put the former package back where a build was killed between its two renames."""
    if _old(out).exists() and not out.exists():
        _old(out).replace(out)


def _clear_killed(out: Path) -> None:
    """Delete what builds into `out` left half done when they were killed; none is at work now."""
    left = re.compile(re.escape(f".{out.name}{_WORK}") + r"[a-z0-9_]{8}")  # as mkdtemp names them
    for path in out.parent.iterdir():
        if left.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _replace(out: Path, work: Path) -> None:
    old = _old(out)
    if out.exists():
        shutil.rmtree(old, ignore_errors=True)
        out.replace(old)
    work.replace(out)
    shutil.rmtree(old, ignore_errors=True)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def readme(manifest: Mapping[str, Any], root: Path) -> str:
    """The package's README: `configs:` and `dataset_info:` from the cards, then their prose."""
    tasks = [get_task(name) for name in manifest]
    front = {
        "pretty_name": "JFinTEB: Japanese Financial Text Embedding Benchmark",
        "language": ["ja"],
        "license": sorted({task.license for task in tasks}),
        "tags": ["embeddings", "finance", "japanese"],
        "configs": [
            {
                "config_name": config,
                "data_files": [{"split": s, "path": parquet_path(task, s)} for s in splits],
            }
            for task in tasks
            for config, splits in task.configs.items()
        ],
        "dataset_info": [
            _dataset_info(task, config, splits, manifest[task.name], root)
            for task in tasks
            for config, splits in task.configs.items()
        ],
    }
    head = yaml.safe_dump(front, allow_unicode=True, sort_keys=False, width=1000)
    rows = [
        f"| `{t.name}` | {t.kind} | {len(t.labels) or '–'} | {t.metric} | {t.license} | "
        + " / ".join(f"{manifest[t.name][s]['rows']:,}" for s in t.splits)
        + " |"
        for t in tasks
    ]
    table = "| task | kind | labels | metric | licence | rows (" + (
        "train / validation / test, or validation / test / corpus) |\n|---|---|---|---|---|---|\n"
    )
    cards = "\n\n".join(f"# {t.pretty_name}\n\n{_lower(t.body)}" for t in tasks)
    return (
        f"---\n{head}---\n\n# JFinTEB\n\nJapanese Financial Text Embedding Benchmark "
        '(arXiv 2604.15882). `load_dataset("retarfi/jfinteb", "<task>")` loads a task; the '
        "documents of a retrieval task are the config `<task>-corpus`.\n\n"
        f"{table}" + "\n".join(rows) + f"\n\n{cards}"
    )


def _lower(body: str) -> str:
    lines = body.splitlines()
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in lines)


def _dataset_info(
    task: Task, config: str, splits: tuple[str, ...], entry: Mapping[str, Any], root: Path
) -> dict[str, Any]:
    columns = []
    for column in task.columns_of(splits[0]):
        feature: dict[str, Any] = {"name": column, "dtype": "string"}
        if column == "label":
            names = {str(i): label for i, label in enumerate(task.labels)}
            feature["dtype"] = {"class_label": {"names": names}}
        elif column == "relevant_docs":
            feature = {"name": column, "sequence": "string"}
        columns.append(feature)
    sizes = {split: (root / parquet_path(task, split)).stat().st_size for split in splits}
    return {
        "config_name": config,
        "features": columns,
        "splits": [
            {"name": s, "num_bytes": sizes[s], "num_examples": entry[s]["rows"]} for s in splits
        ],
        "download_size": sum(sizes.values()),
        "dataset_size": sum(sizes.values()),
    }
