"""The README of a package: what `load_dataset` reads, a table of the tasks, their cards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jfinteb.loaders.origins import parquet_path
from jfinteb.loaders.task import Task, get_task

__all__ = ["readme"]


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
