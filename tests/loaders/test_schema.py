"""Tables, content digests, and what rows must satisfy."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pyarrow as pa
import pytest

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.schema import check_relevance, content_digest, features, make_table, verify
from jfinteb.loaders.task import Split, Task, get_task

REPORT = {"document_id": "E1", "sector": "化学", "opinions": "[]"}
ROWS = [
    {"id": "a", "text": "増収", "label": "positive", **REPORT},
    {"id": "b", "text": "減\n収", "label": "negative", **REPORT},
]
COLUMNS = ["id", "text", "label", "document_id", "sector", "opinions"]


def chabsa(**split: Any) -> Task:
    """The task chabsa, whose test split declares only what is given."""
    task = get_task("chabsa")
    return dataclasses.replace(task, splits={**task.splits, "test": Split(**split)})


def spoil(table: pa.Table, column: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def fault(table: pa.Table, **split: Any) -> str:
    with pytest.raises(DataError) as caught:
        verify(chabsa(**split), "test", table)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def table() -> pa.Table:
    return make_table(chabsa(), "test", ROWS)


def test_label_ids_are_card_indices(table: pa.Table) -> None:
    assert table.column("label").to_pylist() == [1, 0]
    assert features(chabsa(), "test")["label"].names == ["negative", "positive"]
    assert list(features(chabsa(), "test")) == COLUMNS


def test_digest_is_sha256_of_json_rows(table: pa.Table) -> None:
    written = (
        '["id", "text", "label", "document_id", "sector", "opinions"]'
        '["a","増収","positive","E1","化学","[]"]\n'
        '["b","減\\n収","negative","E1","化学","[]"]\n'
    )
    assert content_digest(chabsa(), "test", table) == hashlib.sha256(written.encode()).hexdigest()


def test_digest_sees_every_cell_and_the_order(table: pa.Table) -> None:
    task = chabsa()
    right = content_digest(task, "test", table)
    others = [
        spoil(table, c, [f"{v}x" for v in table.column(c).to_pylist()]) for c in ("id", "text")
    ]
    others += [spoil(table, "label", [0, 0]), table.take([1, 0]), table.slice(0, 1)]
    digests = {content_digest(task, "test", other) for other in others}
    assert len(digests | {right}) == 6


def test_digest_does_not_depend_on_storage(table: pa.Table) -> None:
    right = verify(chabsa(), "test", table)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    large = table.cast(pa.schema([(f.name, _large(f.type)) for f in table.schema]))
    swapped = table.select(["sector", "label", "text", "opinions", "id", "document_id"])
    assert [verify(chabsa(digest=right), "test", t) for t in (chunked, large, swapped)] == [
        right
    ] * 3


def _large(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if kind == pa.string() else kind


@pytest.mark.parametrize("label", ["neutral", "Positive", 1, None, ["positive"]])
def test_undeclared_label(label: object) -> None:
    with pytest.raises(DataError) as caught:
        make_table(chabsa(), "test", [ROWS[0], {**ROWS[1], "label": label}])
    assert str(caught.value) == (
        f"chabsa/test: row 1 has label {label!r}, expected one of negative, positive"
    )


def test_row_without_column() -> None:
    with pytest.raises(DataError, match=r"^chabsa/test: row 0 has no column 'sector'$"):
        make_table(chabsa(), "test", [{k: v for k, v in ROWS[0].items() if k != "sector"}])


@pytest.mark.parametrize("value", [5, ["x"], {"a": 1}, "\ud800"])
def test_value_of_another_type(value: object) -> None:
    with pytest.raises(DataError, match=r"^chabsa/test: a value is not of its column's type: "):
        make_table(chabsa(), "test", [{**ROWS[0], "text": value}])


@pytest.mark.parametrize("label", [-1, 2, 1 << 40])
def test_label_out_of_range(table: pa.Table, label: int) -> None:
    assert fault(spoil(table, "label", [0, label])) == (
        f"chabsa/test: row 1 has label id {label}, expected 0 to 1"
    )


def test_missing_surplus_and_mistyped_columns(table: pa.Table) -> None:
    tail = (
        "expected id (string), text (string), label (int64), document_id (string), "
        "sector (string), opinions (string); rebuild the package"
    )
    lacking = fault(table.drop_columns(["sector", "document_id", "opinions"]))
    assert (
        lacking == f"chabsa/test: found columns id (string), text (string), label (int64), {tail}"
    )
    for wrong in (
        table.append_column("more", pa.array(["x", "y"])),
        table.append_column("label", pa.array([0, 0])),
        spoil(table, "label", ["0", "1"]),
        spoil(table, "label", [0.0, 1.0]),
        spoil(table, "id", [0, 1]),
    ):
        assert fault(wrong).endswith(tail)


@pytest.mark.parametrize("column", ["id", "text", "sector"])
def test_null_cell(table: pa.Table, column: str) -> None:
    wrong = spoil(table, column, pa.array(["x", None], pa.string()))
    assert fault(wrong) == f"chabsa/test: column {column!r} has empty cells, expected none"


def test_null_label(table: pa.Table) -> None:
    wrong = spoil(table, "label", pa.array([0, None], pa.int64()))
    assert fault(wrong) == "chabsa/test: column 'label' has empty cells, expected none"


def test_duplicate_id(table: pa.Table) -> None:
    assert fault(spoil(table, "id", ["a", "a"])) == (
        "chabsa/test: id 'a' stands twice, expected different ids"
    )


def test_no_rows(table: pa.Table) -> None:
    assert fault(table.slice(0, 0)) == "chabsa/test: found no rows, expected at least one"


def test_row_count_and_digest(table: pa.Table) -> None:
    assert (
        fault(table, rows=3)
        == "chabsa/test: found 2 rows, the card declares 3; rebuild the package"
    )
    right = verify(chabsa(), "test", table)
    assert fault(table, rows=2, digest="0" * 64) == (
        f"chabsa/test: rows have changed (content digest {right[:12]}…, the card declares "
        "000000000000…); rebuild the package with jfinteb.build"
    )
    assert verify(chabsa(rows=3, digest="0"), "test", table, declared=False) == right


def relevance(docs: Any, docids: list[str] | None = None) -> None:
    task = get_task("jafin")
    rows = [{"id": "q0", "query": "問", "relevant_docs": docs}]
    queries = make_table(task, "test", rows)
    documents = [{"docid": d, "text": "答"} for d in docids or ["0", "1"]]
    corpus = make_table(task, "corpus", documents)
    verify(task, "test", queries, declared=False)
    check_relevance(task, "test", queries, corpus)


def test_relevance() -> None:
    relevance(["1"])
    relevance([])
    with pytest.raises(DataError) as caught:
        relevance(["9", "1", "00"])
    assert str(caught.value) == "jafin/test: 2 relevant ids are not in the corpus: '00', '9'"


def test_integer_ids_are_not_strings() -> None:
    with pytest.raises(DataError, match=r"^jafin/test: a value is not of its column's type"):
        relevance([0])
    task = get_task("jafin")
    queries = pa.table({"id": ["q"], "query": ["問"], "relevant_docs": [[0]]})
    with pytest.raises(DataError, match=r"found columns .*relevant_docs \(list<.*: int64>\)"):
        verify(task, "test", queries, declared=False)


def test_null_among_relevant_ids() -> None:
    with pytest.raises(DataError, match=r"^jafin/test: column 'relevant_docs' has empty cells"):
        relevance(["0", None])


def test_duplicate_docid() -> None:
    task = get_task("jafin")
    corpus = make_table(task, "corpus", [{"docid": "1", "text": t} for t in "ab"])
    with pytest.raises(DataError, match=r"^jafin/corpus: docid '1' stands twice"):
        verify(task, "corpus", corpus, declared=False)
