"""The audit: one of each flaw planted in packages of our own, and those of the real one."""

from __future__ import annotations

import json
import math
import shutil
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jfinteb.build.audit import TaskAudit, audit, main
from jfinteb.build.audit import core as command
from jfinteb.build.audit.findings import Check, Severity, declare, finding
from jfinteb.build.audit.measures import Lengths, Repeats, lengths
from jfinteb.loaders.errors import DataError, UnavailableError, UsageError
from jfinteb.loaders.schema import content_digest
from jfinteb.loaders.task import get_task

COMPANY, HOUSEHOLD, JOBS = 0, 1, 2  # labels of ews_domain
TRAIN = [
    ("a1", "売上は増えた", COMPANY),
    ("a2", "客数が減った", HOUSEHOLD),
    ("a3", "求人が増えた", JOBS),
    ("a4", "売上は増えた ", COMPANY),  # a duplicate after strip
    ("a5", "客数が減った", HOUSEHOLD),  # an exact duplicate
    ("a6", "　\n", COMPANY),  # empty
    ("a7", unicodedata.normalize("NFD", "ガスが高い"), HOUSEHOLD),  # not NFC
    ("a8", "物価が高い", COMPANY),
    ("a9", "物価が高い", HOUSEHOLD),  # contradicts a8
    ("a10", "R&amp;D費は横ばい", JOBS),  # an entity
    ("a11", "M&Hoge;の件", JOBS),  # no entity: there is no such name
    ("a12", "[[画像:本社]]前年並み", JOBS),  # markup
]
VALIDATION = [
    ("v1", "ＡＢＣ社が好調", COMPANY),
    ("v2", "求人が増えた", JOBS),
]  # v2 leaks; no HOUSEHOLD
TEST = [
    ("t1", "ABC社が好調", HOUSEHOLD),  # v1 after NFKC, under another label
    ("t2", "客数が減った", HOUSEHOLD),  # leaks
    ("t3", "雇用は横ばい", JOBS),
    ("t4", "設備投資は強い", COMPANY),
]
CORPUS = [
    ("d1", "一番の記事"),
    ("d2", "一番の記事"),  # a duplicate
    ("d3", "三番の記事"),
    ("d4", "\u200b"),  # nothing visible
    ("d5", "４番の記事"),
    ("d6", "ａｂｃ社の記事"),
]
ASKED_VALIDATION = [("q1", "一番", ["d1"]), ("q2", "題なし", [])]
ASKED_TEST = [
    ("t1", "一番", ["d2"]),  # stands in validation
    ("t2", "4番", ["d5"]),
    ("t3", "4番", ["d9"]),  # a duplicate, and d9 is not there
    ("t4", "", ["d4"]),
    ("t5", "ABC社", ["d6"]),
]


def labelled(rows: Sequence[tuple[Any, Any, Any]]) -> pa.Table:
    ids, texts, labels = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())}
    return pa.table({**columns, "label": pa.array(labels, pa.int64())})


def asked(rows: Sequence[tuple[str, str, list[str]]]) -> pa.Table:
    ids, queries, relevant = zip(*rows, strict=True)
    documents = pa.array(relevant, pa.list_(pa.string()))
    return pa.table({"id": ids, "query": queries, "relevant_docs": documents})


def write(package: Path, config: str, **splits: pa.Table) -> Path:
    for split, table in splits.items():
        path = package / "data" / config / f"{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return package


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A package with flaws of rows."""
    package = tmp_path / "planted"
    labels = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    write(package, "ews_domain", **{split: labelled(rows) for split, rows in labels.items()})
    documents = pa.table({"docid": [i for i, _ in CORPUS], "text": [t for _, t in CORPUS]})
    write(package, "wikinews_retrieval-corpus", corpus=documents)
    queries = {"validation": asked(ASKED_VALIDATION), "test": asked(ASKED_TEST)}
    return write(package, "wikinews_retrieval", **queries)


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A package of one task that has only a warning: a duplicate in train."""
    rows = {
        split: labelled([(f"{split}{n}", f"{split}の文{n}", n) for n in (COMPANY, HOUSEHOLD, JOBS)])
        for split in ("validation", "test")
    }
    train = labelled([(f"{n}", f"文{n % 3}", n % 3) for n in range(4)])
    return write(tmp_path / "sound", "ews_domain", train=train, **rows)


def found(one: TaskAudit) -> dict[tuple[str, str], tuple[str, ...]]:
    assert all(flaw.count == max(1, len(flaw.ids)) for flaw in one.findings)
    pairs = [(flaw.split, flaw.check.value) for flaw in one.findings]
    assert len(set(pairs)) == len(pairs)
    return {(flaw.split, flaw.check.value): flaw.ids for flaw in one.findings}


def test_flaws_of_labelled_rows(planted: Path) -> None:
    [one] = audit(planted, ["ews_domain"])
    assert found(one) == {
        ("train", "empty_text"): ("a6",),
        ("train", "not_nfc"): ("a7",),
        ("train", "duplicate_text"): ("a4", "a5", "a9"),
        ("train", "html_entity"): ("a10",),
        ("train", "wiki_markup"): ("a12",),
        ("train", "contradiction"): ("a8", "a9"),
        ("validation", "missing_label"): ("家計動向",),
        ("validation", "contradiction"): ("v1",),
        ("validation", "leak"): ("v2",),
        ("test", "contradiction"): ("t1",),
        ("test", "leak"): ("t2",),
        ("test", "shared_text"): ("t1",),
    }
    warnings = {flaw.check for flaw in one.findings if flaw.severity is Severity.WARNING}
    assert warnings == {
        Check.DUPLICATE_TEXT,
        Check.SHARED_TEXT,
        Check.HTML_ENTITY,
        Check.WIKI_MARKUP,
    }
    assert len(one.errors) == 8


def test_numbers_of_labelled_rows(planted: Path) -> None:
    [one] = audit(planted, ["economy_watchers_survey_domain"])  # an alias
    assert (one.task, one.kind) == ("ews_domain", "classification")
    assert {split: part.rows for split, part in one.splits.items()} == {
        "train": 12,
        "validation": 2,
        "test": 4,
    }
    assert one.splits["validation"].labels == {"企業動向": 1, "家計動向": 0, "雇用": 1}
    # 売上 2 rows, 客数 2, 物価 2; 売上 not exactly
    assert one.splits["train"].repeats == Repeats(texts=3, rows=6, surplus=3, exact=2)
    # over the splits: 売上 2, 客数 3, 求人 2, 物価 2, ABC 2
    assert one.repeats == Repeats(texts=5, rows=11, surplus=6, exact=4)
    assert one.splits["train"].nfkc_changes == 2  # a6, a7
    assert one.splits["test"].characters == Lengths(median=6.5, p95=7, max=7)  # 7, 6, 6, 7
    assert one.splits["test"].tokens is None
    assert one.splits["test"].ceiling is None


def test_flaws_of_retrieval(planted: Path) -> None:
    [one] = audit(planted, ["wikinews_retrieval"])
    assert found(one) == {
        ("validation", "no_relevant"): ("q2",),
        ("test", "empty_text"): ("t4",),
        ("test", "duplicate_text"): ("t3",),
        ("test", "shared_text"): ("t1",),
        ("test", "missing_relevant"): ("t3",),
        ("corpus", "empty_text"): ("d4",),
        ("corpus", "duplicate_text"): ("d2",),
    }
    notes = {flaw.check: flaw.note for flaw in one.findings}
    assert notes[Check.MISSING_RELEVANT] == "missing: 'd9' (1)"
    assert {flaw.check for flaw in one.errors} == {Check.EMPTY_TEXT, Check.MISSING_RELEVANT}


def test_numbers_of_retrieval(planted: Path) -> None:
    [one] = audit(planted, ["wikinews_retrieval"])
    tied = (1 + 1 / math.log2(3)) / 2  # first or second, by chance
    assert one.splits["validation"].ceiling == pytest.approx(tied)  # q2 has nothing to find
    assert one.splits["test"].ceiling == pytest.approx((tied + 1 + 0 + 1 + 1) / 5)
    assert one.splits["corpus"].ceiling is None
    verbatim = {split: part.verbatim for split, part in one.splits.items()}
    assert verbatim == {"validation": 1, "test": 3, "corpus": None}  # t1, t2, t5
    assert one.repeats == Repeats(texts=2, rows=4, surplus=2, exact=2)  # queries only
    assert one.splits["corpus"].repeats == Repeats(texts=1, rows=2, surplus=1, exact=1)


def test_without_train_nothing_leaks(tmp_path: Path) -> None:
    labels = range(len(get_task("ews_reason").labels))
    validation = labelled([(f"v{n}", f"理由{n}", n) for n in labels])
    test = labelled([*((f"t{n}", f"訳{n}", n) for n in labels), ("t", "理由3", 3)])
    [one] = audit(write(tmp_path, "ews_reason", validation=validation, test=test), None)
    assert found(one) == {("test", "shared_text"): ("t",)}
    assert one.errors == []


def test_rows_that_load_refuses(tmp_path: Path) -> None:
    train = labelled(
        [
            ("a", "一", COMPANY),
            ("a", "二", HOUSEHOLD),
            ("b", None, JOBS),
            ("c", "三", 3),
            (None, "四", -1),
        ]
    )
    test = labelled([("t", "五", COMPANY)]).drop_columns("label")
    package = write(tmp_path, "ews_domain", train=train, validation=labelled([]), test=test)
    [one] = audit(package, None)
    names = get_task("ews_domain").labels
    assert found(one) == {
        ("train", "empty_cell"): ("b", "row 4"),
        ("train", "duplicate_id"): ("a",),
        ("train", "unknown_label"): ("c", "row 4"),
        ("train", "empty_text"): ("b",),
        ("validation", "empty_split"): (),
        ("validation", "missing_label"): names,
        ("test", "refused"): (),
    }
    assert one.splits["validation"].characters is None
    assert "test" not in one.splits
    [refused] = [flaw for flaw in one.findings if flaw.check is Check.REFUSED]
    assert refused.note == (
        "ews_domain/test: found columns id (string), text (string), expected id (string), "
        "text (string), label (int64)"
    )
    assert len(one.errors) == len(one.findings)


def test_files_that_cannot_be_read(planted: Path) -> None:
    folder = planted / "data" / "wikinews_retrieval"
    (folder / "validation.parquet").write_bytes(b"PAR1")
    (planted / "data" / "wikinews_retrieval-corpus" / "corpus.parquet").unlink()
    [one] = audit(planted, ["wikinews_retrieval"])
    assert found(one) == {
        ("validation", "refused"): (),
        ("corpus", "missing_split"): (),
        ("test", "empty_text"): ("t4",),
        ("test", "duplicate_text"): ("t3",),
    }
    assert one.splits["test"].ceiling is None  # nothing is known of the documents


@pytest.mark.parametrize(
    ("column", "kind", "fits"),
    [("text", pa.large_string(), True), ("label", pa.int32(), False), ("id", pa.binary(), False)],
)
def test_types_are_those_that_load_takes(
    sound: Path, column: str, kind: pa.DataType, fits: bool
) -> None:
    table = labelled([("0", "文", COMPANY), ("1", "節", HOUSEHOLD), ("2", "章", JOBS)])
    at = table.column_names.index(column)
    changed = table.set_column(at, column, table.column(column).cast(kind))
    [one] = audit(write(sound, "ews_domain", train=changed), None)
    assert found(one) == ({} if fits else {("train", "refused"): ()})


def test_lengths_against_numpy() -> None:
    draw = np.random.default_rng(0)
    for n in range(1, 120):
        values = draw.integers(0, 50, n)
        got = lengths(values.tolist())
        assert got is not None
        assert got.median == np.median(values)
        assert got.p95 == np.percentile(values, 95, method="inverted_cdf")
        assert got.max == values.max()
    assert lengths([]) is None


def test_tokens_are_what_the_tokenizer_counts(planted: Path) -> None:
    [one] = audit(planted, ["ews_domain"], tokenizer=lambda text: text.count("客") * 10)
    assert one.splits["train"].tokens == Lengths(median=0.0, p95=10, max=10)
    assert one.splits["validation"].tokens == Lengths(median=0.0, p95=0, max=0)


def test_what_the_folder_holds(planted: Path, tmp_path: Path) -> None:
    table = labelled(TEST)
    write(planted, "ews_domain_since_202406", test=table)  # a variant, after the named tasks
    assert [one.task for one in audit(planted, None)] == [
        "ews_domain",
        "wikinews_retrieval",
        "ews_domain_since_202406",
    ]
    with pytest.raises(UsageError, match="no task 'nothing'"):
        audit(planted, ["nothing"])
    with pytest.raises(UsageError, match=r"no folder .*absent; expected a package"):
        audit(tmp_path / "absent", None)
    with pytest.raises(UnavailableError, match="holds nothing of pfmt; it has ews_domain, wiki"):
        audit(planted, ["ews_domain", "pfmt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnavailableError, match="holds nothing of any task; it has no task"):
        audit(tmp_path / "empty", None)


def test_declared_flaws() -> None:
    flaws = [
        finding(Check.LEAK, "test", ("a", "b")),
        finding(Check.EMPTY_TEXT, "test", ("a",)),
        finding(Check.DUPLICATE_TEXT, "train", ("c",)),
    ]
    leak, empty, duplicate, gone = declare(
        flaws,
        {"leak": {"test": 2}, "empty_text": {"test": 3, "train": 0}, "not_nfc": {"train": 4}},
    )
    assert leak.known
    assert not empty.known
    assert (empty.count, empty.note) == (1, "the card declares 3")
    assert duplicate == flaws[2]
    assert (gone.check, gone.split, gone.count) == (Check.NOT_NFC, "train", 0)
    assert (gone.severity, gone.note) == (Severity.ERROR, "the card declares 4, found none")
    [more] = declare(flaws[2:], {"duplicate_text": {"train": 0}})
    assert more.severity is Severity.ERROR  # a warning is one no more where the card says otherwise
    with pytest.raises(DataError, match="known flaw 'leaks': expected one of missing_split, "):
        declare([], {"leaks": {"test": 1}})


@pytest.fixture(autouse=True)
def _no_known_flaws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted packages stand under the names of real tasks; their cards' flaws are not theirs.

    Nor are the cards' rows, but where a test is of these.
    """
    if not {"package", "sample_package"} & set(request.fixturenames):
        admit(monkeypatch, {})
        monkeypatch.setattr(command, "promises", lambda *_: ())


def admit(monkeypatch: pytest.MonkeyPatch, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Let the cards declare these flaws, and no others."""
    monkeypatch.setattr(
        command, "get_task", lambda name: replace(get_task(name), known_flaws=counts)
    )


def test_strict(planted: Path, sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([str(planted)]) == 0
    assert main([str(planted), "--strict"]) == 1
    assert main([str(sound), "--strict"]) == 0
    counts: Mapping[str, Mapping[str, int]] = {
        "empty_text": {"train": 1},
        "not_nfc": {"train": 1},
        "contradiction": {"train": 2, "validation": 1, "test": 1},
        "missing_label": {"validation": 1},
        "leak": {"validation": 1, "test": 1},
    }
    admit(monkeypatch, counts)
    assert main([str(planted), "--strict", "--tasks", "ews_domain"]) == 0
    less = {**counts, "leak": {"validation": 1}}
    admit(monkeypatch, less)
    assert main([str(planted), "--strict", "--tasks", "ews_domain"]) == 1


def test_what_is_printed(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(planted)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ews_domain validation 2 2 of 3 0 0 0 6.5 7 7" in lines
    assert "ews_domain all 18 5 6 4" in lines
    assert "wikinews_retrieval validation 0.8155 1 of 2 50.0%" in lines
    assert "wikinews_retrieval all 4 of 7 57.1%" in lines
    assert "error ews_domain test leak 1 t2; of 4" in lines
    assert "warning ews_domain train duplicate_text 3 a4, a5, a9; exact: 2" in lines
    assert "warning ews_domain train wiki_markup 1 a12" in lines
    assert lines[-1] == "11 errors that no card declares, 0 errors that cards declare, 8 warnings"


def test_json_goes_through_a_link(planted: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "kept.json", tmp_path / "audit.json"
    link.symlink_to(target)
    assert main([str(planted), "--json", str(link), "--tasks", "ews_domain"]) == 0
    assert link.is_symlink() and json.loads(target.read_text(encoding="utf-8"))


def test_json(planted: Path, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    assert main([str(planted), "--json", str(path), "--tasks", "ews_domain"]) == 0
    [one] = json.loads(path.read_text(encoding="utf-8"))
    assert one["task"] == "ews_domain"
    assert one["splits"]["validation"]["labels"] == {"企業動向": 1, "家計動向": 0, "雇用": 1}
    assert one["repeats"] == {"texts": 5, "rows": 11, "surplus": 6, "exact": 4}
    [leak] = [f for f in one["findings"] if f["check"] == "leak" and f["split"] == "test"]
    assert leak == {
        "check": "leak",
        "severity": "error",
        "split": "test",
        "count": 1,
        "ids": ["t2"],
        "note": "of 4",
        "known": False,
    }


def test_folders_that_no_card_knows(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(sound, "ews_domain-corpus", corpus=labelled(TEST))  # the task has no corpus
    assert main([str(sound)]) == 0
    assert capsys.readouterr().err == "not audited, as no card knows them: ews_domain-corpus\n"
    assert main([str(sound), "--strict"]) == 1


def test_requests_that_cannot_be_met(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = {
        (str(tmp_path / "no"),): "no folder",
        (str(sound), "--tasks", "pfmt"): "holds nothing of pfmt",
        (str(sound), "--json", str(tmp_path / "no" / "audit.json")): "cannot write",
        (str(sound), "--tokenizer", str(tmp_path / "no")): "no folder",
        (str(sound), "--tokenizer", str(sound)): "no tokenizer can be loaded",
    }
    for request, message in requests.items():
        assert main(request) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert message in error
        assert error.count("\n") == 1


def test_tokenizer_of_a_model_folder(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    characters = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]"))
    characters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    characters.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    model = tmp_path / "model"
    saved = PreTrainedTokenizerFast(tokenizer_object=characters, model_max_length=3)
    saved.save_pretrained(str(model))
    assert main([str(sound), "--tokenizer", str(model)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    # 13 characters, one token each, and [CLS]; the model's limit cuts nothing off
    assert "ews_domain validation 3 3 of 3 0 0 0 13 13 13 14 14 14" in lines


def test_as_a_module(planted: Path, python: Any) -> None:
    run = ["-m", "jfinteb.build.audit", str(planted), "--strict"]
    done = python(run, cwd=planted, PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (1, "")
    assert "家計動向" in done.stdout


def spoil(path: Path, column: str, change: Callable[[list[Any]], list[Any]]) -> None:
    table = pq.read_table(path)
    at = table.column_names.index(column)
    cells = pa.array(change(table.column(column).to_pylist()), table.schema.field(column).type)
    pq.write_table(table.set_column(at, column, cells), path)


def wrong(package: Path, task: str) -> dict[tuple[str, str], str]:
    """Errors of the checks of row counts and contents, with their notes."""
    checks = {Check.NO_MANIFEST, Check.ROW_COUNT, Check.CHANGED_ROWS}
    [one] = audit(package, [task])
    return {(f.split, f.check.value): f.note for f in one.errors if f.check in checks}


def test_rows_that_are_not_those_that_were_built(sample_package: Path) -> None:
    assert wrong(sample_package, "multifin_ja") == wrong(sample_package, "jafin") == {}
    test = sample_package / "data" / "multifin_ja" / "test.parquet"
    whole = test.read_bytes()
    spoil(test, "label", lambda labels: labels[::-1])
    assert set(wrong(sample_package, "multifin_ja")) == {("test", "changed_rows")}
    assert main([str(sample_package), "--strict", "--tasks", "multifin_ja"]) == 1
    spoil(test, "label", lambda labels: [*labels[1:], -1])
    note = wrong(sample_package, "multifin_ja")["test", "changed_rows"]
    assert note.startswith("content digest none, as labels are not the card's, the manifest says ")
    test.write_bytes(whole)
    pq.write_table(pq.read_table(test).slice(1), test)
    told = wrong(sample_package, "multifin_ja")
    assert told["test", "row_count"] == "11 rows, the manifest says 12"
    assert set(told) == {("test", "row_count"), ("test", "changed_rows")}
    corpus = sample_package / "data" / "jafin-corpus" / "corpus.parquet"
    spoil(corpus, "text", lambda texts: [*texts[:-1], "別の答"])
    assert set(wrong(sample_package, "jafin")) == {("corpus", "changed_rows")}
    pq.write_table(pq.read_table(corpus).slice(1), corpus)
    told = wrong(sample_package, "jafin")
    assert told["corpus", "row_count"] == "1,489 rows, the card says 1,490, the manifest says 1,490"


def test_packages_without_a_manifest(sample_package: Path) -> None:
    path = sample_package / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    every = {(split, "no_manifest") for split in ("train", "validation", "test")}
    del manifest["multifin_ja"]
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert wrong(sample_package, "multifin_ja") == dict.fromkeys(
        every, "manifest.json has no entry of multifin_ja"
    )
    path.write_text("5", encoding="utf-8")
    assert set(wrong(sample_package, "multifin_ja")) == every
    path.unlink()
    assert wrong(sample_package, "multifin_ja") == dict.fromkeys(every, "no manifest.json")
    assert main([str(sample_package), "--strict"]) == 1


def test_rows_of_a_card(package: Path, tmp_path: Path) -> None:
    """The card's digest counts also where the manifest is changed with the rows."""
    shutil.copytree(package / "data" / "chabsa", tmp_path / "data" / "chabsa")
    manifest = json.loads((package / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert wrong(tmp_path, "chabsa") == {}
    path = tmp_path / "data" / "chabsa" / "test.parquet"
    spoil(path, "label", lambda labels: [1 - labels[0], *labels[1:]])
    digest = content_digest(get_task("chabsa"), "test", pq.read_table(path))
    manifest["chabsa"]["test"]["digest"] = digest
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    [note] = wrong(tmp_path, "chabsa").values()
    assert note == f"content digest {digest[:12]}…, the card says 282ec0bb59bc…"


def test_queries_that_all_lack_relevant_documents(planted: Path) -> None:
    path = planted / "data" / "wikinews_retrieval" / "validation.parquet"
    spoil(path, "relevant_docs", lambda docs: [[] for _ in docs])
    [one] = audit(planted, ["wikinews_retrieval"])
    assert found(one)["validation", "no_relevant"] == ("q1", "q2")
    [error] = [flaw for flaw in one.errors if flaw.split == "validation"]
    assert (error.check, error.note) == (Check.NOTHING_RELEVANT, "of 2 queries")


@pytest.fixture(scope="module")
def published(package: Path) -> dict[str, TaskAudit]:
    """The audit of the package of the real raw files."""
    return {one.task: one for one in audit(package, None)}


def counts(one: TaskAudit, check: Check) -> dict[str, int]:
    return {flaw.split: flaw.count for flaw in one.findings if flaw.check is check}


def test_label_coverage_of_industry33(published: dict[str, TaskAudit]) -> None:
    splits = published["industry33"].splits
    present = {name: sum(n > 0 for n in split.labels.values()) for name, split in splits.items()}
    assert present == {"train": 33, "validation": 26, "test": 32}
    assert counts(published["industry33"], Check.MISSING_LABEL) == {"validation": 7, "test": 1}


def test_repeats_of_wikinews_retrieval(published: dict[str, TaskAudit]) -> None:
    one = published["wikinews_retrieval"]
    documents = one.splits["corpus"].repeats
    assert (documents.surplus, documents.texts, documents.rows) == (84, 78, 162)
    assert (one.repeats.texts, one.repeats.rows) == (77, 160)
    [empty] = [flaw for flaw in one.findings if flaw.check is Check.EMPTY_TEXT]
    assert (empty.split, sorted(empty.ids)) == ("corpus", ["224", "909"])
    assert counts(one, Check.SHARED_TEXT) == {"test": 12}
    assert one.splits["test"].ceiling == pytest.approx(0.9673, abs=5e-5)
    assert one.splits["validation"].ceiling == pytest.approx(0.9710, abs=5e-5)


def test_leaks_of_wikinews(published: dict[str, TaskAudit]) -> None:
    one = published["wikinews"]
    assert counts(one, Check.LEAK) == {"validation": 4, "test": 8}
    assert one.splits["test"].rows == 196
    assert counts(one, Check.SHARED_TEXT) == {"test": 3}  # 11 with validation
    assert counts(one, Check.DUPLICATE_TEXT) == {"train": 49, "validation": 6, "test": 13}
    assert one.repeats.surplus == 83
    assert counts(one, Check.EMPTY_TEXT) == {"train": 1, "test": 1}
    assert counts(one, Check.CONTRADICTION) == {"train": 1, "test": 1}


def test_names_and_markup_of_wikipedia(published: dict[str, TaskAudit]) -> None:
    one = published["wikipedia_retrieval"]
    verbatim = [one.splits[split].verbatim for split in ("validation", "test")]
    assert sum(n or 0 for n in verbatim) == 1453  # of 1,478: 98 %
    assert counts(one, Check.HTML_ENTITY) == {"corpus": 57}
    assert counts(one, Check.WIKI_MARKUP) == {"corpus": 21}
    assert one.splits["test"].ceiling == pytest.approx(0.9997, abs=5e-5)


def test_the_numbers_of_the_cards(published: dict[str, TaskAudit]) -> None:
    surplus = {name: one.repeats.surplus for name, one in published.items()}
    assert surplus | {"chabsa": 6, "ews_domain": 5, "ews_horizon": 7} == surplus
    assert surplus | {"ews_sentiment": 9, "ews_reason": 23, "pfmt": 0} == surplus
    assert counts(published["ews_sentiment"], Check.CONTRADICTION) == {"train": 3, "validation": 2}
    assert sum(counts(published["ews_reason"], Check.CONTRADICTION).values()) == 7
    assert not any(counts(one, Check.NOT_NFC) for one in published.values())
    changed = {
        name: sum(split.nfkc_changes for split in one.splits.values())
        for name, one in published.items()
    }
    assert changed | {"chabsa": 1275, "ews_domain": 1563, "ews_horizon": 2691} == changed
    assert changed | {"ews_sentiment": 2953, "ews_reason": 3701, "industry33": 1415} == changed
    assert published["ews_domain"].splits["validation"].characters == Lengths(
        median=52.5, p95=123, max=216
    )
    assert published["pfmt"].splits["corpus"].characters == Lengths(median=973, p95=1626, max=3600)
