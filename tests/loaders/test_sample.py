"""The embedded sample suite: fixed, well formed, and neither trivial nor hopeless."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, ndcg_score, v_measure_score

from jfinteb.loaders import sample
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import get_task, task_names

# SHA-256 of the canonical JSON of each task. A change of the sample data must be deliberate: scores
# in the documentation and in the golden results change with it.
GOLDEN: dict[str, str] = {
    "chabsa": "2205ceefea18647cdfbb2f1401744a957bc176496a13cb85ccf1aa7dbdc6dadb",
    "ews_domain": "1f22f8df71af5e7966febcdd2fe4f5ba7760dc689ab25aa52e296c5d125517e4",
    "ews_horizon": "68e9c95643f4b3b0b864e1b5addc16073cff6f231d841bba6f46d5a07c82d208",
    "ews_reason": "0b9d243dbf07933bb18c9057f4f4ba2b15e866abef7f7c8d573efe29181022fc",
    "ews_sentiment": "4a6800d60b5b9769a591bf994a501deee925219f39a8a3d18ac7d87dc6b555b1",
    "industry17": "df372359688e87d411ee5ccd218925adcc427f2076f72e634f91c01be101a65f",
    "industry33": "e040b40a369f268f87d8966dae3c2fef27c0ffa86f161ff909499c1e2c918716",
    "jafin": "554e1f5c6d7587ca212e1aea1c18ee193c4d07664d651692172e90fb66fa7a3a",
    "multifin_ja": "6401628eb8bb7c824f098f10888884eba56447baf7f9b44ebcbf1dadf70d8473",
    "pfmt": "fd8c76c2a424952024729867c9e143cc8b076a1dfbec6e4f583ac2677857926a",
    "wikinews": "f36d29adacd3beb0f4a70c994bd44477132e8b3ae7a6cd37b488507f1510ed57",
    "wikinews_retrieval": "092c34f5b0b6088591b83f57e3de7ee9fa6d153ea97e6ea920ff22ada1a1168d",
    "wikipedia_retrieval": "9043dacfc879b2d111d11288f666034e275743d2d7772c3c4af7c92464637e31",
}

NAMES = task_names()
RETRIEVAL = [name for name in NAMES if get_task(name).kind.value == "retrieval"]
CLASSIFICATION = [name for name in NAMES if get_task(name).kind.value == "classification"]
LABELLED = [name for name in NAMES if name not in RETRIEVAL]

# Rows a label (train, validation, test), and documents of the corpus.
ROWS_A_LABEL = {
    "chabsa": (40, 20, 20),
    "ews_domain": (30, 15, 15),
    "ews_horizon": (40, 20, 20),
    "ews_reason": (0, 12, 12),
    "ews_sentiment": (30, 15, 15),
    "industry17": (16, 8, 8),
    "industry33": (8, 4, 4),
    "multifin_ja": (20, 10, 10),
    "wikinews": (40, 20, 20),
}
DOCUMENTS = {"jafin": 90, "pfmt": 100, "wikinews_retrieval": 100, "wikipedia_retrieval": 110}

DIGESTS = """
import hashlib, json
from jfinteb.loaders import sample
from jfinteb.loaders.task import get_task, task_names
for name in reversed(task_names()):
    task = get_task(name)
    rows = sample.rows(name, task.kind.value, task.labels)
    print(name, hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest())
"""


def rows_of(name: str) -> dict[str, list[dict[str, Any]]]:
    task = get_task(name)
    return sample.rows(name, task.kind.value, task.labels)


def digest(name: str) -> str:
    return hashlib.sha256(json.dumps(rows_of(name), sort_keys=True).encode()).hexdigest()


def texts(name: str) -> list[str]:
    return [
        row["query"] if "query" in row else row["text"]
        for part in rows_of(name).values()
        for row in part
    ]


def test_every_task_has_sample_data() -> None:
    assert set(ROWS_A_LABEL) | set(DOCUMENTS) == set(NAMES) == set(GOLDEN)


@pytest.mark.parametrize("name", NAMES)
def test_the_data_are_the_pinned_ones(name: str) -> None:
    assert digest(name) == GOLDEN[name]


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_rows_depend_neither_on_the_hash_seed_nor_on_the_order_of_tasks(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(line.split() for line in done.stdout.splitlines()) == GOLDEN


@pytest.mark.parametrize("name", LABELLED)
def test_rows_a_label(name: str) -> None:
    wanted = dict(zip(("train", "validation", "test"), ROWS_A_LABEL[name], strict=True))
    counts = {split: Counter(row["label"] for row in part) for split, part in rows_of(name).items()}
    assert counts == {
        split: dict.fromkeys(get_task(name).labels, count)
        for split, count in wanted.items()
        if count
    }
    assert len(rows_of(name)["test"]) <= 250


@pytest.mark.parametrize("name", RETRIEVAL)
def test_sizes_and_relevance_of_retrieval(name: str) -> None:
    parts = rows_of(name)
    sizes = {split: len(part) for split, part in parts.items()}
    assert sizes == {"validation": 20, "test": 60, "corpus": DOCUMENTS[name]}
    docids = [row["docid"] for row in parts["corpus"]]
    assert len(set(docids)) == len(docids)
    assert all(isinstance(docid, str) for docid in docids)
    queries = [*parts["validation"], *parts["test"]]
    relevant = [row["relevant_docs"] for row in queries]
    assert {docid for docs in relevant for docid in docs} < set(docids)  # some are asked by nobody
    assert {len(docs) for docs in relevant} == {1, 2}
    assert all(len(set(docs)) == len(docs) for docs in relevant)
    assert len({frozenset(docs) for docs in relevant}) == len(queries)


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_those_of_the_card(name: str) -> None:
    task = get_task(name)
    extra = set(task.columns)
    for split, part in rows_of(name).items():
        wanted = {"id", "text", "label"} | extra
        if name in RETRIEVAL:
            queries = {"id", "query", "relevant_docs"} | extra
            wanted = {"docid", "text"} if split == "corpus" else queries
        for row in part:
            assert set(row) == wanted
            assert all(isinstance(row[key], str) and row[key] for key in wanted - {"relevant_docs"})


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique(name: str) -> None:
    ids = [row["id"] for part in rows_of(name).values() for row in part if "id" in row]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_occurs_twice(name: str) -> None:
    folded = [unicodedata.normalize("NFKC", text).strip() for text in texts(name)]
    assert [text for text, count in Counter(folded).items() if count > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_whole(name: str) -> None:
    for text in texts(name):
        assert unicodedata.is_normalized("NFC", text)
        assert text == text.strip()
        assert not set("{}~\n") & set(text), f"unfilled template: {text}"
        assert "。。" not in text


def test_no_document_of_chabsa_is_in_two_splits() -> None:
    parts = rows_of("chabsa")
    documents = [{row["document_id"] for row in part} for part in parts.values()]
    assert sum(map(len, documents)) == len(set.union(*documents))
    sectors = {(row["document_id"], row["sector"]) for part in parts.values() for row in part}
    assert len(sectors) == len(set.union(*documents))


def test_opinions_of_chabsa_name_a_target_in_their_sentence() -> None:
    for part in rows_of("chabsa").values():
        for row in part:
            [opinion] = json.loads(row["opinions"])
            assert row["text"][opinion["from"] : opinion["to"]] == opinion["target"] != ""
            assert opinion["polarity"] == row["label"]


def test_the_order_of_the_labels_changes_nothing() -> None:
    assert sample.rows("ews_horizon", "classification", ["現状", "先行き"]) == sample.rows(
        "ews_horizon", "classification", ["先行き", "現状"]
    )


def test_a_caller_may_change_its_rows() -> None:
    rows_of("jafin")["corpus"].clear()
    assert len(rows_of("jafin")["corpus"]) == DOCUMENTS["jafin"]


@pytest.mark.parametrize(
    ("name", "kind", "labels", "message"),
    [
        ("chabs", "classification", ["negative", "positive"], "no sample task 'chabs'"),
        ("chabsa", "clustering", ["negative", "positive"], "kind classification, got 'clustering'"),
        ("chabsa", "classification", ["negative", "neutral"], r"got \['negative', 'neutral'\]"),
        ("jafin", "retrieval", ["yes"], r"got \['yes'\]"),
    ],
)
def test_what_does_not_fit_is_an_error(
    name: str, kind: str, labels: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        sample.rows(name, kind, labels)


def lexical(values: list[str]) -> np.ndarray:
    """Character 1- to 3-grams, as unit vectors (the lexical baseline, straight from sklearn)."""
    grams = HashingVectorizer(
        analyzer="char", ngram_range=(1, 3), n_features=4096, alternate_sign=False, norm=None
    ).transform(values)
    weights = TfidfTransformer(use_idf=False, sublinear_tf=True).fit_transform(grams)
    return np.asarray(weights.toarray())


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classification_is_neither_trivial_nor_hopeless(name: str) -> None:
    parts = rows_of(name)
    vectors = {split: lexical([r["text"] for r in part]) for split, part in parts.items()}
    labels = {split: [r["label"] for r in part] for split, part in parts.items()}
    model = LogisticRegression(max_iter=1000).fit(vectors["train"], labels["train"])
    score = f1_score(labels["test"], model.predict(vectors["test"]), average="macro")
    chance = 1 / len(get_task(name).labels)
    assert max(0.45, chance + 0.1) < score < 0.9


@pytest.mark.parametrize("name", RETRIEVAL)
def test_retrieval_is_neither_trivial_nor_hopeless(name: str) -> None:
    parts = rows_of(name)
    docids = [row["docid"] for row in parts["corpus"]]
    relevance = [[docid in row["relevant_docs"] for docid in docids] for row in parts["test"]]
    queries = lexical([row["query"] for row in parts["test"]])
    documents = lexical([row["text"] for row in parts["corpus"]])
    assert 0.5 < ndcg_score(np.array(relevance), queries @ documents.T, k=10) < 0.9


def test_clustering_is_neither_trivial_nor_hopeless() -> None:
    part = rows_of("ews_reason")["test"]
    vectors = lexical([row["text"] for row in part])
    scores = [
        v_measure_score(
            [row["label"] for row in part],
            KMeans(13, n_init=1, random_state=seed).fit_predict(vectors),
        )
        for seed in range(3)
    ]
    assert all(0.2 < score < 0.8 for score in scores)


def test_the_notice_says_what_it_is() -> None:
    assert "\n" not in sample.NOTICE
    assert "synthetic" in sample.NOTICE
    assert "say nothing about a model" in sample.NOTICE
