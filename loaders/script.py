"""The `datasets` builder of JFinTEB.

With datasets < 4 this file also is a loading script
(`load_dataset("loaders/script.py", "chabsa", trust_remote_code=True)`); with datasets >= 4 scripts
are gone, and the class is used directly: `JFinTEB(config_name="chabsa").download_and_prepare()`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, ClassVar

import datasets

from jfinteb.loaders.data import load_tables, open_origin
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.schema import features
from jfinteb.loaders.task import Task, declared_tasks

__all__ = ["JFinTEB"]

_CONFIGS = {
    config: (task, splits) for task in declared_tasks() for config, splits in task.configs.items()
}


def _config(name: str) -> tuple[Task, tuple[str, ...]]:
    if name not in _CONFIGS:
        raise UsageError(f"no config {name!r}; configs: {', '.join(_CONFIGS)}")
    return _CONFIGS[name]


class JFinTEBConfig(datasets.BuilderConfig):  # type: ignore[misc]
    """A config whose id holds a digest of its rows.

    `datasets` caches prepared rows by this id. Its own id knows the path of a folder, not what is
    in it: a rebuilt package, or another of the same relative path, would give the old rows.
    """

    def create_config_id(
        self, config_kwargs: dict[str, Any], custom_features: datasets.Features | None = None
    ) -> str:
        """Read the rows, and append their digest to the id that `datasets` gives."""
        task, splits = _config(self.name)
        _, digests = load_tables(task, open_origin(self.data_dir), splits)
        content = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
        return f"{super().create_config_id(config_kwargs, custom_features)}-{content[:16]}"


class JFinTEB(datasets.GeneratorBasedBuilder):  # type: ignore[misc]
    """One config a task, and `<task>-corpus` for the documents of a retrieval task.

    Keyword arguments are those of any builder; `data_dir` names a package folder or `"sample"`;
    without it the rows come from the hub repository.
    """

    BUILDER_CONFIG_CLASS = JFinTEBConfig
    BUILDER_CONFIGS: ClassVar[list[JFinTEBConfig]] = [
        JFinTEBConfig(name=config, version=datasets.Version("1.0.0")) for config in _CONFIGS
    ]

    def _info(self) -> datasets.DatasetInfo:
        task, splits = _config(self.config.name)
        return datasets.DatasetInfo(
            description=task.pretty_name,
            features=features(task, splits[0]),
            license=task.license,
            citation=task.citation,
        )

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        task, splits = _config(self.config.name)
        tables, _ = load_tables(task, open_origin(self.config.data_dir), splits)
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"table": table})
            for split, table in tables.items()
        ]

    def _generate_examples(self, table: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(table.to_pylist())
