"""The package's README and manifest."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from jfinteb.build.hub import write_package
from jfinteb.loaders import sample
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.schema import content_digest, make_table
from jfinteb.loaders.task import get_task


@pytest.fixture(scope="module")
def front(synthetic_package: Path) -> dict[str, Any]:
    text = (synthetic_package / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    found: dict[str, Any] = yaml.safe_load(text.split("\n---\n")[0])
    return found


def test_manifest(synthetic_package: Path) -> None:
    manifest = json.loads((synthetic_package / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest) == ["jafin", "multifin_ja"]
    for name, splits in manifest.items():
        task = get_task(name)
        assert list(splits) == list(task.splits)
        for split, entry in splits.items():
            path = synthetic_package / "data" / task.config_of(split) / f"{split}.parquet"
            table = pq.read_table(path)
            assert entry["rows"] == table.num_rows
            assert entry["digest"] == content_digest(task, split, table)


def test_front_matter_configs(front: dict[str, Any]) -> None:
    assert front["configs"] == [
        {
            "config_name": config,
            "data_files": [
                {"split": split, "path": f"data/{config}/{split}.parquet"} for split in splits
            ],
        }
        for config, splits in {
            "jafin": ["validation", "test"],
            "jafin-corpus": ["corpus"],
            "multifin_ja": ["train", "validation", "test"],
        }.items()
    ]
    assert front["language"] == ["ja"]
    assert front["license"] == ["cc-by-nc-4.0", "unknown"]


def test_front_matter_dataset_info(front: dict[str, Any], synthetic_package: Path) -> None:
    info = {entry["config_name"]: entry for entry in front["dataset_info"]}
    assert info["jafin"]["features"] == [
        {"name": "id", "dtype": "string"},
        {"name": "query", "dtype": "string"},
        {"name": "relevant_docs", "sequence": "string"},
    ]
    names = info["multifin_ja"]["features"][2]["dtype"]["class_label"]["names"]
    assert [names[str(i)] for i in range(6)] == list(get_task("multifin_ja").labels)
    [corpus] = info["jafin-corpus"]["splits"]
    size = (synthetic_package / "data" / "jafin-corpus" / "corpus.parquet").stat().st_size
    assert corpus == {"name": "corpus", "num_bytes": size, "num_examples": 1490}
    assert info["jafin-corpus"]["download_size"] == size


def test_prose(synthetic_package: Path) -> None:
    text = (synthetic_package / "README.md").read_text(encoding="utf-8")
    assert "| `jafin` | retrieval | – | ndcg_at_10 | unknown | 298 / 1,192 / 1,490 |" in text
    assert "| `multifin_ja` | classification | 6 | macro_f1 | cc-by-nc-4.0 | 12 / 12 / 12 |" in text
    for name in ("jafin", "multifin_ja"):
        assert f"\n# {get_task(name).pretty_name}\n" in text
        assert f"\n## {get_task(name).pretty_name}\n" in text


def test_parquet_has_no_metadata_of_a_library(synthetic_package: Path) -> None:
    for path in (synthetic_package / "data").rglob("*.parquet"):
        schema = pq.read_schema(path)
        assert not {b"huggingface", b"pandas"} & set(schema.metadata or {})


def test_nothing_is_written_of_rows_that_do_not_fit(tmp_path: Path) -> None:
    task = get_task("jafin")
    tables = {
        "validation": make_table(
            task,
            "validation",
            [{"id": f"q{n}", "query": "問", "relevant_docs": ["x"]} for n in range(298)],
        ),
        "test": make_table(task, "test", []),
        "corpus": make_table(task, "corpus", [{"docid": "0", "text": "答"}]),
    }
    with pytest.raises(DataError) as caught:
        write_package(tmp_path / "hub", {"jafin": tables})
    assert str(caught.value) == "jafin/validation: 1 relevant ids are not in the corpus: 'x'"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("manifest", ["{}", "[]", "null", "5"])
def test_a_folder_whose_manifest_names_nothing_is_left_alone(tmp_path: Path, manifest: str) -> None:
    out = tmp_path / "mine"
    (out / "data").mkdir(parents=True)
    (out / "data" / "mine.txt").write_text("mine", encoding="utf-8")
    (out / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(UsageError, match="is no jfinteb package"):
        write_package(out, {})
    assert (out / "data" / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_concurrent_builds_keep_each_others_tasks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = get_task("multifin_ja")
    rows = sample.rows(task.name, task.kind.value, task.labels)
    made = {split: make_table(task, split, part) for split, part in rows.items()}
    tables, other = {"multifin_ja": made}, {"multifin_ja_clean": made}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            list(pool.map(lambda t: write_package(out, t), (tables, other)))
            manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
            assert set(manifest) == {"multifin_ja", "multifin_ja_clean"}
            shutil.rmtree(out)
