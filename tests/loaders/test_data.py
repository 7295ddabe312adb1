"""`load` from a package folder, the sample and a hub: right rows, or one line that says why not."""

from __future__ import annotations

import dataclasses
import http.server
import json
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jfinteb.loaders import get_task, load
from jfinteb.loaders.data import HUB_REVISION, Folder, Hub, Sample, load_tables, open_origin
from jfinteb.loaders.errors import DataError, JfintebError, UnavailableError, UsageError
from jfinteb.loaders.schema import content_digest
from jfinteb.loaders.task import Split

MULTIFIN_TEST = "data/multifin_ja/test.parquet"


def edit(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def cells(table: pa.Table, column: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def line(kind: type[JfintebError], task: Any, split: str | None, data: Any) -> str:
    with pytest.raises(kind) as caught:
        load(task, split, data=data)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_of_a_package(sample_package: Path) -> None:
    test = load("multifin_ja", "test", data=sample_package)
    assert test.num_rows == 12  # 18 rows, every third in English
    assert test[1] == {"id": "2", "text": "testの見出し2", "label": 2}
    assert test.features["label"].names == list(get_task("multifin_ja").labels)
    every = load("jafin", data=str(sample_package))
    assert {split: part.num_rows for split, part in every.items()} == {
        "validation": 298,
        "test": 1192,
        "corpus": 1490,
    }
    assert every["corpus"][0] == {"docid": "0", "text": "答0"}


def test_column_order_is_the_card_s(sample_package: Path) -> None:
    edit(sample_package / MULTIFIN_TEST, lambda t: t.select(["label", "text", "id"]))
    test = load("multifin", "test", data=sample_package)
    assert test.column_names == ["id", "text", "label"]
    assert test[1] == {"id": "2", "text": "testの見出し2", "label": 2}


def test_sample_has_every_task() -> None:
    for name in ("chabsa", "pfmt", "ews_reason"):
        task = get_task(name)
        loaded = load(name, data="sample")
        assert list(loaded) == list(task.splits)
        for split, part in loaded.items():
            assert part.column_names == list(task.columns_of(split))
            assert part.num_rows > 0


def test_unknown_task_and_split() -> None:
    assert line(UsageError, "nope", "test", "sample").startswith("no task 'nope'; tasks: chabsa, ")
    assert line(UsageError, "chabsa", "dev", "sample") == (
        "chabsa has no split 'dev'; splits: train, validation, test"
    )
    assert line(UsageError, "pfmt", "train", "sample") == (
        "pfmt has no split 'train'; splits: validation, test, corpus"
    )


@pytest.mark.parametrize("data", ["hub", "./hub", "/no/hub", "a/b/c", "~/hub", Path("a/b")])
def test_no_such_folder(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert line(UsageError, "chabsa", "test", data) == (
        f"no folder '{data}'; expected a package folder (python -m jfinteb.build --source DIR "
        f"--out {data}), a hub repository such as retarfi/jfinteb, or 'sample'"
    )


def test_folder_without_the_task(sample_package: Path, tmp_path: Path) -> None:
    message = line(UnavailableError, "chabsa", "test", sample_package)
    assert message == (
        f"chabsa/test: not in {sample_package}, which has jafin, multifin_ja; get its raw files "
        "from "
        "https://github.com/chakki-works/chABSA-dataset and add it with python -m jfinteb.build "
        f"--source RAW --tasks chabsa --out {sample_package}"
    )
    (tmp_path / "empty").mkdir()
    assert "empty is no package (it has no data/); build one with " in line(
        UnavailableError, "chabsa", "test", tmp_path / "empty"
    )


def test_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_origin() == Hub("retarfi/jfinteb", HUB_REVISION)
    assert open_origin("me/mine") == Hub("me/mine", "main")
    assert open_origin("me/mine@v2") == Hub("me/mine", "v2")
    assert open_origin("retarfi/jfinteb@abc") == Hub("retarfi/jfinteb", "abc")
    assert open_origin("sample") == Sample()
    (tmp_path / "retarfi" / "jfinteb").mkdir(parents=True)
    assert open_origin() == Folder(tmp_path / "retarfi" / "jfinteb")
    assert open_origin().name == "folder jfinteb"


def test_local_folder_comes_before_the_hub(
    sample_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample_package.parent.parent)
    assert load("multifin_ja", "test").num_rows == 12


def test_truncated_parquet(sample_package: Path) -> None:
    path = sample_package / MULTIFIN_TEST
    whole = path.read_bytes()
    for size in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        message = line(DataError, "multifin_ja", "test", sample_package)
        assert message.startswith(f"multifin_ja/test: {path} is no parquet file (")
        assert message.endswith("); build or fetch it again")


def test_spoiled_parquet_bytes_never_escape_as_another_error(sample_package: Path) -> None:
    path = sample_package / MULTIFIN_TEST
    whole = path.read_bytes()
    rng = random.Random(7)
    lines = set()
    for _ in range(150):
        spoiled = bytearray(whole)
        for _ in range(rng.choice([1, 4, 20])):
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
        path.write_bytes(spoiled)
        try:
            load_tables(get_task("multifin_ja"), open_origin(sample_package), ("test",))
        except DataError as error:
            lines.add(str(error))
    assert len(lines) > 5


def test_names_and_text_that_are_not_utf8(sample_package: Path) -> None:
    path = sample_package / MULTIFIN_TEST
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    pq.write_table(pa.table({"id": ["1"], "text": bad, "label": [0]}), path)
    assert "Invalid UTF8" in line(DataError, "multifin_ja", "test", sample_package)
    pq.write_table(pa.table({"id": ["1"], "label": [0], "textfield": ["x"]}), path)
    path.write_bytes(path.read_bytes().replace(b"textfield", b"\xafextfield"[:9]))
    assert "is no parquet file" in line(DataError, "multifin_ja", "test", sample_package)


def test_changed_row_is_a_digest_error(sample_package: Path) -> None:
    task = get_task("multifin_ja")
    _, digests = load_tables(task, open_origin(sample_package))
    declared = {split: Split(digest=digest) for split, digest in digests.items()}
    strict = dataclasses.replace(task, splits=declared)
    assert load(strict, "test", data=sample_package).num_rows == 12
    edit(
        sample_package / MULTIFIN_TEST,
        lambda t: cells(t, "text", ["改", *t.column("text").to_pylist()[1:]]),
    )
    message = line(DataError, strict, "test", sample_package)
    assert message.startswith("multifin_ja/test: rows have changed (content digest ")
    assert load(strict, "train", data=sample_package).num_rows == 12


def test_changed_row_of_a_published_task(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "data" / "wikinews" / "test.parquet"
    path.parent.mkdir(parents=True)
    rows = pq.read_table(package / "data" / "wikinews" / "test.parquet")
    pq.write_table(cells(rows, "label", [0] * rows.num_rows), path)
    message = line(DataError, "wikinews", "test", tmp_path)
    assert message.startswith("wikinews/test: rows have changed (content digest ")
    pq.write_table(rows.slice(1), path)
    assert line(DataError, "wikinews", "test", tmp_path) == (
        "wikinews/test: found 195 rows, the card declares 196; rebuild the package"
    )


SPOILED: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "label out of range": (
        lambda t: cells(t, "label", [*[0] * 11, 6]),
        "multifin_ja/test: row 11 has label id 6, expected 0 to 5",
    ),
    "missing column": (
        lambda t: t.drop_columns(["text"]),
        "multifin_ja/test: found columns id (string), label (int64), expected id (string), "
        "text (string), label (int64); rebuild the package",
    ),
    "null": (
        lambda t: cells(t, "text", [None, *["x"] * 11]),
        "multifin_ja/test: column 'text' has empty cells, expected none",
    ),
    "duplicate id": (
        lambda t: cells(t, "id", ["1", *map(str, range(1, 12))]),
        "multifin_ja/test: id '1' stands twice, expected different ids",
    ),
}


@pytest.mark.parametrize("case", SPOILED)
def test_spoiled_rows(case: str, sample_package: Path) -> None:
    change, expected = SPOILED[case]
    edit(sample_package / MULTIFIN_TEST, change)
    assert line(DataError, "multifin_ja", "test", sample_package) == expected


def test_relevant_id_not_in_the_corpus(sample_package: Path) -> None:
    edit(
        sample_package / "data" / "jafin-corpus" / "corpus.parquet",
        lambda t: cells(t, "docid", [f"d{d}" for d in t.column("docid").to_pylist()]),
    )
    for split in ("validation", "corpus"):
        message = line(DataError, "jafin", split, sample_package)
        assert message.startswith("jafin/corpus: rows have changed (content digest ")
    (sample_package / "manifest.json").unlink()  # nothing tells of the rows any more
    message = line(DataError, "jafin", "validation", sample_package)
    assert message.startswith("jafin/validation: 298 relevant ids are not in the corpus: '")


def test_corpus_of_other_columns(sample_package: Path) -> None:
    path = sample_package / "data" / "jafin-corpus" / "corpus.parquet"
    edit(path, lambda t: t.rename_columns(["id", "text"]))
    assert line(DataError, "jafin", "test", sample_package) == (
        "jafin/corpus: found columns id (string), text (string), expected docid (string), "
        "text (string); rebuild the package"
    )


def test_rows_that_nothing_tells_of(sample_package: Path) -> None:
    path = sample_package / "manifest.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("multifin_ja", "test", data=sample_package)
        load("multifin_ja", "test", data="sample")
    del whole["multifin_ja"]
    path.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.warns(UserWarning) as told:
        load("multifin_ja", "test", data=sample_package)
    assert [str(one.message) for one in told] == [
        "multifin_ja (test): rows not verified, neither the card nor a manifest in folder jfinteb "
        "has their digest"
    ]
    assert told[0].filename == __file__


def test_a_manifest_does_not_outdo_the_card(sample_package: Path) -> None:
    path = sample_package / "data" / "jafin" / "test.parquet"
    edit(path, lambda t: t.slice(0, 5))
    manifest = json.loads((sample_package / "manifest.json").read_text(encoding="utf-8"))
    digest = content_digest(get_task("jafin"), "test", pq.read_table(path))
    manifest["jafin"]["test"] = {"rows": 5, "digest": digest}
    (sample_package / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert line(DataError, "jafin", "test", sample_package) == (
        "jafin/test: found 5 rows, the card declares 1192; rebuild the package"
    )


def test_wrong_row_count(sample_package: Path) -> None:
    path = sample_package / "data" / "jafin" / "test.parquet"
    edit(path, lambda t: t.slice(0, 1191))
    assert line(DataError, "jafin", "test", sample_package) == (
        "jafin/test: found 1191 rows, the card declares 1192; rebuild the package"
    )


class StubHub(http.server.BaseHTTPRequestHandler):
    """Serves one package as the data set `me/good@v9`; `me/gated` is gated, all else is missing."""

    root: Path
    commit = "c" * 40

    def log_message(self, *args: Any) -> None:
        """Keep the test's output clean."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        prefix = "/datasets/me/good/resolve/v9/"
        path = self.root / self.path.removeprefix(prefix)
        if "/me/gated/" in self.path:
            self.reply(403, {"X-Error-Code": "GatedRepo"})
        elif not self.path.startswith(prefix):
            self.reply(404, {"X-Error-Code": "RepoNotFound"})
        elif not path.is_file():
            self.reply(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": self.commit})
        else:
            content = path.read_bytes()
            self.reply(200, {"ETag": f'"{len(content)}"', "X-Repo-Commit": self.commit}, content)

    def reply(self, status: int, headers: dict[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def hub(synthetic_package: Path) -> Iterator[str]:
    handler = type("Handler", (StubHub,), {"root": synthetic_package})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


ASK = """
import json, sys
from jfinteb.loaders.data import load_tables, open_origin
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.task import get_task
answers = []
for task, data in json.loads(sys.argv[1]):
    try:
        tables, _ = load_tables(get_task(task), open_origin(data))
        answers.append({split: table.num_rows for split, table in tables.items()})
    except JfintebError as error:
        answers.append([type(error).__name__, str(error)])
print(json.dumps(answers))
"""


def test_hub(hub: str, python: Any, tmp_path: Path) -> None:
    asked = [
        ["jafin", "me/good@v9"],
        ["chabsa", "me/good@v9"],
        ["chabsa", "me/good@v8"],
        ["chabsa", "me/gated"],
        ["chabsa", "me/missing"],
        ["pfmt", "me/good@v9"],
    ]
    program = ["-c", ASK, json.dumps(asked)]
    done = python(program, cwd=tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    assert done.returncode == 0, done.stderr
    good, no_task, no_revision, gated, missing, not_shipped = json.loads(done.stdout)
    assert good == {"validation": 298, "test": 1192, "corpus": 1490}
    hint = "offline, give a folder made by python -m jfinteb.build as data"
    assert no_task[0] == no_revision[0] == gated[0] == missing[0] == "UnavailableError"
    assert no_task[1].startswith("chabsa: cannot get data/chabsa/train.parquet of me/good at v9 (")
    assert no_task[1].endswith(f"EntryNotFoundError); {hint}")
    assert "data/chabsa/train.parquet of me/good at v8 (" in no_revision[1]
    assert gated[1] == (
        "chabsa: me/gated is gated; accept its terms on its page and log in with `hf auth login`"
    )
    assert missing[1] == (
        "chabsa: cannot get data/chabsa/train.parquet of me/missing at main "
        f"(RepositoryNotFoundError); {hint}"
    )
    assert not_shipped[0] == "UnavailableError"
    assert not_shipped[1].startswith("pfmt: not in me/good, since its rows may not be redistribut")
    assert "python -m jfinteb.build --fetch --out hub" in not_shipped[1]


@pytest.mark.parametrize("offline", ["0", "1"])
def test_hub_out_of_reach(offline: str, python: Any, tmp_path: Path) -> None:
    impatient = "import time\ntime.sleep = lambda seconds: None\n"  # the client waits, retrying
    program = ["-c", impatient + ASK, json.dumps([["chabsa", None], ["pfmt", None]])]
    done = python(program, cwd=tmp_path, HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE=offline)
    assert done.returncode == 0, done.stderr
    [[kind, message], [second_kind, second]] = json.loads(done.stdout)
    assert kind == second_kind == "UnavailableError"
    reason = "cannot get data/chabsa/train.parquet of retarfi/jfinteb at v1.0.0 ("
    assert message.startswith(f"chabsa: {reason}")
    assert second.startswith("pfmt: cannot get ")
    assert "\n" not in message
