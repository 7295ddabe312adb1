"""Raw files to rows: faults are one line; real rows are the publishers' rows."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jfinteb.build.recipe import tables_of
from jfinteb.build.sources import PARSERS
from jfinteb.build.sources.files import SourceFolder
from jfinteb.build.sources.lines import json_lines
from jfinteb.loaders.errors import DataError, JfintebError, UnavailableError
from jfinteb.loaders.task import SourceFile, Task, get_task

ZIP = "chabsa/chABSA-dataset.zip"


def opinion(polarity: str) -> dict[str, Any]:
    return {"target": "増", "category": "NULL#sales", "polarity": polarity, "from": 0, "to": 1}


def report(document: str, *sentences: tuple[str, list[str]]) -> dict[str, Any]:
    return {
        "header": {"document_id": document, "category33": "化学"},
        "sentences": [
            {"sentence_id": n, "sentence": text, "opinions": [opinion(p) for p in polarities]}
            for n, (text, polarities) in enumerate(sentences)
        ],
    }


def write_zip(folder: Path, members: Mapping[str, bytes | dict[str, Any]]) -> SourceFolder:
    path = folder / ZIP
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return SourceFolder(folder)


def parse(task: str, folder: SourceFolder) -> dict[str, list[dict[str, Any]]]:
    found = folder.choose(get_task(task))
    assert found is not None
    return PARSERS[found.source.parser](found, folder)


def line(kind: type[JfintebError], task: str | Task, folder: SourceFolder) -> str:
    with pytest.raises(kind) as caught:
        tables_of(get_task(task) if isinstance(task, str) else task, folder)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_chabsa_polarities(tmp_path: Path) -> None:
    made = report(
        "E1",
        ("増収", ["positive", "positive"]),
        ("減収だが横ばい", ["negative", "neutral"]),
        ("まちまち", ["positive", "negative"]),
        ("横ばい", ["neutral"]),
        ("事業の内容", []),
    )
    rows = parse("chabsa", write_zip(tmp_path, {"d/e1_ann.json": made, "d/README": b"x"}))
    assert rows["train"] == rows["validation"] == []
    first, second = (json.loads(row.pop("opinions")) for row in rows["test"])
    assert first == [opinion("positive"), opinion("positive")]
    assert second == [opinion("negative"), opinion("neutral")]
    of = {"document_id": "E1", "sector": "化学"}
    assert rows["test"] == [
        {"id": "E1-0", "text": "増収", "label": "positive", **of},
        {"id": "E1-1", "text": "減収だが横ばい", "label": "negative", **of},
    ]


def test_chabsa_opinions_have_one_form_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    made = report("E1", ("増収", ["positive"]))
    made["sentences"][0]["opinions"] = [dict(reversed(opinion("positive").items())) | {"x": 1}]
    rows = parse("chabsa", write_zip(tmp_path, {"e1_ann.json": made}))
    assert rows["test"][0]["opinions"] == (
        '[{"target": "増", "category": "NULL#sales", "polarity": "positive", "from": 0, "to": 1}]'
    )


def test_chabsa_does_not_depend_on_the_order_in_the_zip(tmp_path: Path) -> None:
    members = {f"e{n}_ann.json": report(f"E{n}", (f"文{n}", ["positive"])) for n in range(20)}
    one = parse("chabsa", write_zip(tmp_path / "a", members))
    two = parse("chabsa", write_zip(tmp_path / "b", dict(reversed(members.items()))))
    assert one == two
    assert [len(part) for part in one.values()] == [14, 2, 4]


def test_chabsa_writes_nothing(tmp_path: Path) -> None:
    made = report("E1", ("増収", ["positive"]))
    folder = write_zip(
        tmp_path / "raw", {"../../up_ann.json": made, "/tmp/jfinteb_abs_ann.json": made}
    )
    before = sorted(tmp_path.rglob("*"))
    assert len(parse("chabsa", folder)["test"]) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/jfinteb_abs_ann.json").exists()


def test_chabsa_skips_what_macos_adds(tmp_path: Path) -> None:
    made = report("E1", ("増収", ["positive"]))
    folder = write_zip(tmp_path, {"d/e1_ann.json": made, "__MACOSX/d/._e1_ann.json": b"\0\5\x16\7"})
    assert len(parse("chabsa", folder)["test"]) == 1


def test_chabsa_huge_member_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_zip(tmp_path, {"d/e1_ann.json": b" " * (16 * 2**20 + 1)})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("was opened"))
    assert line(DataError, "chabsa", folder) == (
        "chabsa: d/e1_ann.json in chABSA-dataset.zip unpacks to 16777217 bytes, "
        "expected at most 16777216"
    )


def test_chabsa_member_that_lies_about_its_size(tmp_path: Path) -> None:
    folder = write_zip(tmp_path, {"e1_ann.json": b"[" + b" " * 2**20 + b"]"})
    path = tmp_path / ZIP
    size = (2**20 + 2).to_bytes(4, "little")
    assert path.read_bytes().count(size) == 2
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    assert line(DataError, "chabsa", folder).startswith("chabsa: chABSA-dataset.zip is not the ")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'{"header": {}}',
        b'{"header": {"document_id": []}}',
        b"[" * 100_000,
    ],
)
def test_chabsa_wrong_json(content: bytes, tmp_path: Path) -> None:
    message = line(DataError, "chabsa", write_zip(tmp_path, {"e1_ann.json": content}))
    assert message.startswith("chabsa: chABSA-dataset.zip is not the chABSA zip (")
    assert message.endswith("); get it from https://github.com/chakki-works/chABSA-dataset")


@pytest.mark.parametrize(
    "change",
    [
        {"sentences": None},
        {"sentences": [{}]},
        {"sentences": ["x"]},
        {"header": {"document_id": "E1"}},
        {"sentences": [{"sentence_id": 0, "sentence": 5, "opinions": [opinion("positive")]}]},
        {"sentences": [{"sentence_id": 0, "sentence": "x", "opinions": [opinion("good")]}]},
        {"sentences": [{"sentence_id": 0, "sentence": "x", "opinions": [{"polarity": ["x"]}]}]},
        {
            "sentences": [
                {"sentence_id": 0, "sentence": "x", "opinions": [{"polarity": "positive"}]}
            ]
        },
    ],
)
def test_chabsa_json_of_another_shape(change: dict[str, Any], tmp_path: Path) -> None:
    made = {**report("E1", ("増収", ["positive"])), **change}
    assert line(DataError, "chabsa", write_zip(tmp_path, {"e1_ann.json": made})).startswith(
        "chabsa"
    )


def test_chabsa_not_a_zip_and_spoiled_zips(tmp_path: Path) -> None:
    made = report("E1", ("増収" * 300, ["positive"]))
    folder = write_zip(tmp_path, {"e1_ann.json": made})
    path = tmp_path / ZIP
    whole = path.read_bytes()
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    method = bytearray(whole)
    method[8] = method[whole.index(b"PK\x01\x02") + 10] = 97
    stream = bytearray(whole)
    stream[45:60] = b"\xff" * 15
    for spoiled in (b"", b"no zip", whole[:-30], encrypted, method, stream):
        path.write_bytes(spoiled)
        assert line(DataError, "chabsa", folder).startswith(
            "chabsa: chABSA-dataset.zip is not the chABSA zip ("
        )
    assert line(DataError, "chabsa", write_zip(tmp_path, {"x.json": made})) == (
        "chabsa: no *_ann.json in chABSA-dataset.zip; "
        "get it from https://github.com/chakki-works/chABSA-dataset"
    )


def with_source(name: str, **files: SourceFile) -> Task:
    task = get_task(name)
    return dataclasses.replace(task, source=dataclasses.replace(task.source, files=files))


def test_wrong_sha256(tmp_path: Path) -> None:
    (tmp_path / "pfmt").mkdir()
    for name in ("question", "model_answer_gpt-4o"):
        (tmp_path / "pfmt" / f"{name}.jsonl").write_text("{}\n", encoding="utf-8")
    # sha256 of "{}\n", by sha256sum
    assert line(DataError, "pfmt", SourceFolder(tmp_path)) == (
        "pfmt: pfmt/question.jsonl has sha256 ca3d163bab05…, the card declares 1946989e52f1…; "
        "get revision 0966dbb8afcbcf60e31c8044245aa9cce331cdec from "
        "https://github.com/pfnet-research/pfmt-bench-fin-ja"
    )


def test_missing_file(tmp_path: Path) -> None:
    assert SourceFolder(tmp_path).missing(get_task("pfmt")) == [
        "pfmt/question.jsonl",
        "pfmt/model_answer_gpt-4o.jsonl",
    ]
    assert line(UnavailableError, "pfmt", SourceFolder(tmp_path)) == (
        f"pfmt: no pfmt/question.jsonl in {tmp_path}; get it from "
        "https://github.com/pfnet-research/pfmt-bench-fin-ja"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}\n{"b": 1}\n', "rows.jsonl line 2 has no 'a', expected an object with a"),
        (b"[1]\n", "rows.jsonl line 1 has no 'a', expected an object with a"),
        (b"\n", "rows.jsonl is not JSON Lines in UTF-8: "),
        (b'{"a": 1', "rows.jsonl is not JSON Lines in UTF-8: "),
        (b'{"a": "\x8e\xe6"}\n', "rows.jsonl is not JSON Lines in UTF-8: "),
    ],
)
def test_json_lines_faults(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(json_lines(path, get_task("pfmt"), "a"))
    assert str(caught.value).startswith(f"pfmt: {expected}")


def test_json_lines_ends_lines_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    text = "一\u2028二\u0085三\x0c"
    path.write_bytes(json.dumps({"a": text}, ensure_ascii=False).encode() + b"\r\n")
    assert list(json_lines(path, get_task("pfmt"), "a")) == [{"a": text}]


@pytest.mark.parametrize(
    "row",
    [
        {"question_id": 1, "choices": []},
        {"question_id": 1, "choices": [{}]},
        {"question_id": "x", "choices": [{"turns": ["a"]}]},
        {"question_id": None, "choices": [{"turns": ["a"]}]},
        {"question_id": 1, "choices": 5},
        {"question_id": 2, "choices": [{"turns": ["a"]}]},
        {"question_id": 1, "choices": [{"turns": [7]}]},
    ],
)
def test_pfmt_of_another_shape(row: dict[str, Any], tmp_path: Path) -> None:
    question = {"question_id": 1, "category": "c", "turns": ["問", "次"]}
    for name, value in (("q", question), ("a", row)):
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    task = with_source("pfmt", questions=SourceFile(path="q"), answers=SourceFile(path="a"))
    assert line(DataError, task, SourceFolder(tmp_path)).startswith("pfmt")


def test_jafin_and_multifin(sample_source: Path) -> None:
    rows = parse("jafin", SourceFolder(sample_source))
    assert rows["corpus"][0] == {"docid": "0", "text": "答0"}
    queries = {row["id"]: row for row in rows["validation"] + rows["test"]}
    assert queries["q0"] == {"id": "q0", "query": "問0\n前提", "relevant_docs": ["0"]}
    assert queries["q9"] == {"id": "q9", "query": "問9", "relevant_docs": ["9"]}
    assert len(queries) == 1490
    japanese = parse("multifin", SourceFolder(sample_source))["train"]
    assert [row["id"] for row in japanese[:3]] == ["0", "2", "3"]


def parquet(package: Path, config: str, split: str) -> list[dict[str, Any]]:
    return list(pq.read_table(package / "data" / config / f"{split}.parquet").to_pylist())


def lines(data_folder: Path, path: str) -> list[dict[str, Any]]:
    text = (data_folder / "published" / path).read_bytes().decode("utf-8")
    return [json.loads(row) for row in text.split("\n") if row]


LABELLED = [
    ("ews_domain", "economy-watchers-survey/domain"),
    ("ews_horizon", "economy-watchers-survey/horizon"),
    ("ews_sentiment", "economy-watchers-survey/sentiment"),
    ("ews_reason", "economy-watchers-survey/reason"),
    ("wikinews", "wikinews/classification"),
    ("industry17", "wikipedia/industry17"),
    ("industry33", "wikipedia/industry33"),
]


@pytest.mark.parametrize(("task", "folder"), LABELLED)
def test_published_labels_row_by_row(
    task: str, folder: str, package: Path, data_folder: Path
) -> None:
    labels = get_task(task).labels
    for split in get_task(task).splits:
        raw = lines(data_folder, f"{folder}/{split}.jsonl")
        rows = parquet(package, task, split)
        assert [r["text"] for r in rows] == [r["text"] for r in raw]
        assert [labels[r["label"]] for r in rows] == [r["label"] for r in raw]
        if task.startswith("ews"):
            assert [r["id"] for r in rows] == [r["id"] for r in raw]
        else:
            assert rows[-1]["id"] == f"{split}-{len(raw) - 1}"


@pytest.mark.parametrize("task", ["wikinews", "wikipedia"])
def test_published_retrieval_first_middle_last(task: str, package: Path, data_folder: Path) -> None:
    raw = lines(data_folder, f"{task}/retrieval/docs.jsonl")
    rows = parquet(package, f"{task}_retrieval-corpus", "corpus")
    assert len(rows) == len(raw)
    for at in (0, len(raw) // 2, -1):
        assert rows[at] == {"docid": str(raw[at]["docid"]), "text": raw[at]["text"]}
    for split in ("validation", "test"):
        asked = lines(data_folder, f"{task}/retrieval/query-{split}.jsonl")
        queries = parquet(package, f"{task}_retrieval", split)
        assert len(queries) == len(asked)
        for at in (0, len(asked) // 2, -1):
            assert queries[at]["query"] == asked[at]["query"]
            assert queries[at]["relevant_docs"] == [str(d) for d in asked[at]["relevant_docs"]]


def test_ews_ids(package: Path) -> None:
    for task in ("ews_domain", "ews_horizon", "ews_sentiment", "ews_reason"):
        seen: set[str] = set()
        for split in get_task(task).splits:
            ids = [row["id"] for row in parquet(package, task, split)]
            assert not seen & set(ids)
            seen.update(ids)
        assert all(i.startswith(("current-", "future-")) for i in seen)
        assert task != "ews_reason" or all(i.startswith("current-") for i in seen)


def test_chabsa_content(package: Path, data_folder: Path) -> None:
    rows = {s: parquet(package, "chabsa", s) for s in ("train", "validation", "test")}
    every = [row for part in rows.values() for row in part]
    assert len(every) == 2330
    assert [sum(row["label"] == label for row in every) for label in (0, 1)] == [933, 1397]
    documents = {split: {row["document_id"] for row in part} for split, part in rows.items()}
    assert not documents["train"] & documents["validation"]
    assert not documents["train"] & documents["test"]
    assert not documents["validation"] & documents["test"]
    with zipfile.ZipFile(data_folder / ZIP) as archive:
        reports = [json.loads(archive.read(n)) for n in archive.namelist() if n.endswith(".json")]
    expected = {
        (r["header"]["document_id"], s["sentence"], ("negative", "positive").index(one[0]))
        for r in reports
        for s in r["sentences"]
        if len(one := sorted({o["polarity"] for o in s["opinions"]} - {"neutral"})) == 1
    }
    assert {(row["document_id"], row["text"], row["label"]) for row in every} == expected
    for row in every:
        polarities = set()
        for one in json.loads(row["opinions"]):
            assert row["text"][one["from"] : one["to"]] == one["target"]
            polarities.add(one["polarity"])
        assert polarities - {"neutral"} == {("negative", "positive")[row["label"]]}
    annotated = {
        (r["header"]["document_id"], s["sentence"], len(s["opinions"]))
        for r in reports
        for s in r["sentences"]
    }
    assert {
        (r["document_id"], r["text"], len(json.loads(r["opinions"]))) for r in every
    } <= annotated


def test_pfmt_content(package: Path, data_folder: Path) -> None:
    def raw(name: str) -> dict[str, Any]:
        text = (data_folder / "pfmt" / name).read_text(encoding="utf-8")
        rows = [json.loads(row) for row in text.split("\n") if row]
        return {str(row["question_id"]): row for row in rows}

    questions, answers = raw("question.jsonl"), raw("model_answer_gpt-4o.jsonl")
    corpus = parquet(package, "pfmt-corpus", "corpus")
    parts = [parquet(package, "pfmt", split) for split in ("validation", "test")]
    assert [len(parts[0]), len(parts[1]), len(corpus)] == [72, 288, 360]
    assert {d["docid"]: d["text"] for d in corpus} == {
        i: row["choices"][0]["turns"][0] for i, row in answers.items()
    }
    for row in parts[0] + parts[1]:
        [docid] = row["relevant_docs"]
        assert row["id"] == f"q{docid}"
        assert (row["query"], row["category"]) == (
            questions[docid]["turns"][0],
            questions[docid]["category"],
        )
