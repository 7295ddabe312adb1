"""The `datasets` builder, and the package as `load_dataset` reads it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jfinteb.loaders
from jfinteb.loaders import get_task, load
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.script import JFinTEB
from jfinteb.loaders.task import task_names

ROOT = Path(jfinteb.loaders.__file__).parent.parent
LOAD_ALL = """
import json, sys
from datasets import load_dataset
for config in json.loads(sys.argv[1]):
    loaded = load_dataset("retarfi/jfinteb", config)
    for split, part in loaded.items():
        label = part.features.get("label")
        first = part[0]
        print(json.dumps([config, split, part.num_rows, part.column_names,
                          label and label.names, first], ensure_ascii=False))
"""


def configs(package: Path) -> list[str]:
    return sorted(path.name for path in (package / "data").iterdir())


def check_loaded(stdout: str, package: Path) -> None:
    """Every line of `LOAD_ALL` against the parquet files read with pyarrow, and the cards."""
    seen = []
    for found in stdout.splitlines():
        config, split, rows, columns, names, first = json.loads(found)
        task = get_task(config.removesuffix("-corpus"))
        table = pq.read_table(package / "data" / config / f"{split}.parquet")
        assert (rows, columns) == (table.num_rows, table.column_names)
        assert names == (list(task.labels) or None if "label" in columns else None)
        assert first == table.slice(0, 1).to_pylist()[0]
        seen.append((config, split))
    assert sorted(seen) == sorted(
        (config, split)
        for config in configs(package)
        for split in get_task(config.removesuffix("-corpus")).configs[config]
    )


def run_load_all(package: Path, python: Any, **options: Any) -> None:
    program = ["-c", LOAD_ALL, json.dumps(configs(package))]
    done = python(
        program, cwd=package.parent.parent, HF_DATASETS_OFFLINE="1", PYTHONUTF8="1", **options
    )
    assert done.returncode == 0, done.stderr[-2000:]
    check_loaded(done.stdout, package)


def test_load_dataset_every_config(every_package: Path, python: Any) -> None:
    if os.environ.get("JFINTEB_DATA"):  # 13 tasks, 4 of them with a corpus, and as many clean
        assert set(configs(every_package)) == set(JFinTEB.builder_configs)
        assert len(configs(every_package)) == 34
    run_load_all(every_package, python)


def built(config: str, data: Path | str, cache: Path) -> Any:
    builder = JFinTEB(config_name=config, data_dir=str(data), cache_dir=str(cache))
    builder.download_and_prepare()
    return builder.as_dataset()


@pytest.mark.parametrize(
    ("config", "splits"),
    [
        ("multifin_ja", ["train", "validation", "test"]),
        ("jafin", ["validation", "test"]),
        ("jafin-corpus", ["corpus"]),
    ],
)
def test_builder_gives_what_load_gives(
    config: str, splits: list[str], synthetic_package: Path, tmp_path: Path
) -> None:
    found = built(config, synthetic_package, tmp_path)
    assert list(found) == splits
    for split in splits:
        expected = load(config.removesuffix("-corpus"), split, data=synthetic_package)
        assert found[split].to_list() == expected.to_list()
        assert found[split].features == expected.features


def test_builder_on_real_data(data_folder: Path, every_package: Path, tmp_path: Path) -> None:
    found = built("chabsa", every_package, tmp_path)
    for split, part in load("chabsa", data=every_package).items():
        assert found[split].to_list() == part.to_list()
        assert found[split].features["label"].names == ["negative", "positive"]


def test_opinions_come_as_json(data_folder: Path, every_package: Path, tmp_path: Path) -> None:
    for row in built("chabsa", every_package, tmp_path)["test"].select(range(20)):
        opinions = json.loads(row["opinions"])
        assert {opinion["polarity"] for opinion in opinions} <= {"positive", "negative", "neutral"}
        assert all(row["text"][o["from"] : o["to"]] == o["target"] for o in opinions)


def test_builder_on_the_sample(tmp_path: Path) -> None:
    found = built("pfmt", "sample", tmp_path)
    assert found["test"].to_list() == load("pfmt", "test", data="sample").to_list()


def test_every_config_is_known() -> None:
    expected = {c for name in task_names() for c in get_task(name).configs}
    assert len(expected) == 17
    clean = {c for name in task_names() for c in get_task(f"{name}_clean").configs}
    assert set(JFinTEB.builder_configs) == expected | clean


def test_no_config_is_the_default(synthetic_package: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="multifin_ja"):
        JFinTEB(cache_dir=str(tmp_path))
    with pytest.raises(UsageError, match=r"^no config 'default'; configs: chabsa, .*pfmt-corpus"):
        JFinTEB(data_dir=str(synthetic_package), cache_dir=str(tmp_path))


def test_unknown_config_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="nope"):
        JFinTEB(config_name="nope", data_dir="sample", cache_dir=str(tmp_path))
    with pytest.raises(UsageError, match="no folder 'nowhere'"):
        built("multifin_ja", "nowhere", tmp_path)


def rewrite(package: Path, text: str) -> None:
    path = package / "data" / "multifin_ja" / "test.parquet"
    table = pq.read_table(path)
    texts = pa.array([text] * table.num_rows)
    pq.write_table(table.set_column(table.column_names.index("text"), "text", texts), path)
    (package / "manifest.json").unlink(missing_ok=True)  # else the change itself is refused


def test_changed_data_is_never_stale(sample_package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    before = built("multifin_ja", sample_package, cache)["test"][0]
    assert before["text"] == "testの見出し0"
    rewrite(sample_package, "新")
    assert built("multifin_ja", sample_package, cache)["test"][0]["text"] == "新"


def test_same_relative_path_elsewhere_is_never_stale(
    sample_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "jfinteb"
    shutil.copytree(sample_package, other)
    rewrite(other, "他")
    found = []
    for folder in (sample_package.parent, other.parent):
        monkeypatch.chdir(folder)
        found.append(built("multifin_ja", "jfinteb", tmp_path / "cache")["test"][0]["text"])
    assert found == ["testの見出し0", "他"]


def test_equal_data_is_prepared_once(sample_package: Path, tmp_path: Path) -> None:
    for _ in range(2):
        built("multifin_ja", sample_package, tmp_path / "cache")
    assert len(list((tmp_path / "cache").rglob("dataset_info.json"))) == 1


def test_spoiled_data_is_refused_though_the_cache_has_it(
    sample_package: Path, tmp_path: Path
) -> None:
    built("multifin_ja", sample_package, tmp_path / "cache")
    (sample_package / "data" / "multifin_ja" / "test.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="is no parquet file"):
        built("multifin_ja", sample_package, tmp_path / "cache")


@pytest.fixture
def datasets3() -> str:
    executable = os.environ.get("JFINTEB_DATASETS3")
    if not executable:
        pytest.skip("JFINTEB_DATASETS3 does not name a python with datasets < 4")
    return executable


def test_loading_script_of_datasets_3(
    datasets3: str, synthetic_package: Path, python: Any, tmp_path: Path
) -> None:
    (tmp_path / "path" / "jfinteb").mkdir(parents=True)
    for room in ("dataset_cards", "loaders"):
        (tmp_path / "path" / "jfinteb" / room).symlink_to(ROOT / room)
    program = f"""
import datasets
assert datasets.__version__ < "4", datasets.__version__
for data, config in (({str(synthetic_package)!r}, "jafin"), ("sample", "chabsa")):
    found = datasets.load_dataset(
        "loaders/script.py", config, data_dir=data, trust_remote_code=True)
    print({{split: part.num_rows for split, part in found.items()}})
print(found["test"].features["label"].names)
"""
    done = python(
        program, cwd=ROOT, executable=datasets3, PYTHONPATH=str(tmp_path / "path"), PYTHONUTF8="1"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "{'validation': 298, 'test': 1192}",
        "{'train': 80, 'validation': 40, 'test': 40}",
        "['negative', 'positive']",
    ]


def test_every_config_with_datasets_3(datasets3: str, every_package: Path, python: Any) -> None:
    run_load_all(every_package, python, executable=datasets3)
