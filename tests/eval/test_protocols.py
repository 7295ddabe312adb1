"""The protocols, on synthetic vectors, against direct calls of scikit-learn and trec_eval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from sklearn.cluster import AgglomerativeClustering, Birch, BisectingKMeans, MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, v_measure_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from jfinteb.eval.outcome import Outcome, choose
from jfinteb.eval.protocols import classification, clustering, inputs, retrieval, score
from jfinteb.loaders.ceiling import ceiling
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Role, get_task

Array = npt.NDArray[np.float32]
WIKINEWS, INDUSTRY = get_task("wikinews"), get_task("industry33")
REASON, SEARCH = get_task("ews_reason"), get_task("wikinews_retrieval")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """On data this small, threads cost more than they give."""
    with threadpool_limits(1):
        yield


def labelled(labels: Sequence[int], prefix: str = "r") -> pa.Table:
    n = len(labels)
    rows = {"id": [f"{prefix}{i}" for i in range(n)], "text": [f"文{i}" for i in range(n)]}
    return pa.table({**rows, "label": pa.array(labels, pa.int64())})


def split(labels: Mapping[str, Sequence[int]]) -> dict[str, pa.Table]:
    return {name: labelled(values, name) for name, values in labels.items()}


def blobs(labels: Sequence[int], noise: float, seed: int, d: int = 40) -> Array:
    """A direction a label, and noise of that standard deviation."""
    random = np.random.default_rng(seed)
    vectors = np.eye(d)[np.asarray(labels)] + noise * random.normal(size=(len(labels), d))
    found: Array = vectors.astype(np.float32)
    return found


def noisy(n_labels: int, noise: float) -> tuple[dict[str, list[int]], dict[str, Array]]:
    random = np.random.default_rng(7)
    sizes = {"train": 200, "validation": 80, "test": 120}
    labels = {name: random.integers(0, n_labels, n).tolist() for name, n in sizes.items()}
    seeds = {"train": 1, "validation": 2, "test": 3}
    return labels, {name: blobs(y, noise, seeds[name]) for name, y in labels.items()}


# --- classification ------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "noise"), [("wikinews", 0.9), ("multifin_ja", 0.5)])
def test_classification_as_scikit_learn(task: str, noise: float) -> None:
    chosen_task = get_task(task)
    labels, vectors = noisy(len(chosen_task.labels), noise)
    outcome = classification.run(chosen_task, split(labels), vectors, 0)
    models = {
        "knn_k2_cosine": KNeighborsClassifier(n_neighbors=2, metric="cosine"),
        "logistic_regression": LogisticRegression(),
    }
    fitted = {n: m.fit(vectors["train"], labels["train"]) for n, m in models.items()}
    for name, model in fitted.items():
        guess = model.predict(vectors["validation"])
        expected = f1_score(labels["validation"], guess, average="macro")
        assert outcome.validation[name]["macro_f1"] == pytest.approx(expected, abs=1e-12)
    best = max(fitted, key=lambda name: outcome.validation[name]["macro_f1"])
    assert outcome.chosen == best
    guess = fitted[best].predict(vectors["test"])
    expected = f1_score(labels["test"], guess, average="macro")
    assert 0.3 < expected < 0.99
    assert outcome.score == outcome.scores["macro_f1"] == pytest.approx(expected, abs=1e-12)
    assert outcome.scores["accuracy"] == pytest.approx(np.mean(guess == labels["test"]))
    names = chosen_task.labels
    assert list(outcome.predictions) == [
        {"id": f"test{i}", "reference": names[y], "prediction": names[p]}
        for i, (y, p) in enumerate(zip(labels["test"], guess, strict=True))
    ]
    assert outcome.interval is not None
    assert outcome.interval.low < expected < outcome.interval.high


def test_separable_classes_score_one_and_the_first_of_equals_is_chosen() -> None:
    labels, vectors = noisy(2, 0.01)
    outcome = classification.run(WIKINEWS, split(labels), vectors, 0)
    assert outcome.score == 1.0
    assert outcome.chosen == next(iter(outcome.validation)) == "knn_k2_cosine"
    assert [scores["macro_f1"] for scores in outcome.validation.values()] == [1.0, 1.0]


def test_only_validation_chooses() -> None:
    labels, vectors = noisy(2, 0.9)
    before = classification.run(WIKINEWS, split(labels), vectors, 0)
    wrong = labels | {"test": [1 - y for y in labels["test"]]}
    after = classification.run(WIKINEWS, split(wrong), vectors, 0)
    assert after.chosen == before.chosen
    assert after.validation == before.validation
    assert after.scores["accuracy"] == pytest.approx(1 - before.scores["accuracy"])


def test_labels_that_a_split_lacks_cost_nothing() -> None:
    """As in industry33: 33 labels, of which validation has 26 and test 31, in other rows."""
    labels = {
        "train": list(range(33)) * 3,
        "validation": list(range(26)) * 2,
        "test": [y for y in range(33) if y not in (0, 17)] * 2,
    }
    vectors = {name: blobs(y, 0.01, 1) for name, y in labels.items()}
    outcome = classification.run(INDUSTRY, split(labels), vectors, 0)
    assert outcome.score == 1.0
    assert {scores["macro_f1"] for scores in outcome.validation.values()} == {1.0}
    assert all(row["reference"] == row["prediction"] for row in outcome.predictions)


def test_two_neighbours_that_disagree_give_the_lower_label() -> None:
    train = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]], dtype=np.float32)
    near_one = np.array([[1, 0.01]], dtype=np.float32)
    for labels, expected in (([1, 0, 0, 0], 0), ([0, 1, 1, 1], 0), ([1, 1, 0, 0], 1)):
        model = classification.SETTINGS["knn_k2_cosine"]().fit(train, labels)
        assert model.predict(near_one).tolist() == [expected]


@pytest.mark.parametrize("power", [83, 40, -45, -100])
def test_knn_sees_directions_at_any_length(power: int) -> None:
    """float32 squares overflow at 2^64, and scikit-learn has lengths below 2^-19 be zero."""
    labels, vectors = noisy(5, 0.5)
    model = classification.SETTINGS["knn_k2_cosine"]()
    plain = model.fit(vectors["train"], labels["train"]).predict(vectors["test"])
    expected = KNeighborsClassifier(n_neighbors=2, metric="cosine")
    expected.fit(vectors["train"].astype(np.float64), labels["train"])
    assert plain.tolist() == expected.predict(vectors["test"].astype(np.float64)).tolist()
    random = np.random.default_rng(1)
    turned = {
        n: np.ldexp(v, power * random.integers(0, 2, (len(v), 1))) for n, v in vectors.items()
    }
    assert model.fit(turned["train"], labels["train"]).predict(turned["test"]).tolist() == (
        plain.tolist()
    )


def test_knn_neighbours_at_random_lengths_are_those_of_float64() -> None:
    random = np.random.default_rng(6)
    train, test = random.normal(size=(400, 30)), random.normal(size=(200, 30))
    train *= 10 ** random.uniform(-35, 35, (400, 1))
    test *= 10 ** random.uniform(-35, 35, (200, 1))
    train, test = train.astype(np.float32), test.astype(np.float32)
    labels = random.integers(0, 9, 400)
    one, other = (
        v / np.linalg.norm(v, axis=1, keepdims=True)
        for v in (test.astype("f8"), train.astype("f8"))
    )
    nearest = np.argsort(-one @ other.T, axis=1)[:, :2]
    expected = labels[nearest].min(axis=1)  # two votes: equal, or the lower label
    model = classification.SETTINGS["knn_k2_cosine"]().fit(train, labels)
    assert model.predict(test).tolist() == expected.tolist()


def test_one_label_in_train_is_an_error() -> None:
    labels = {"train": [1, 1, 1], "validation": [0, 1], "test": [0, 1]}
    vectors = {name: blobs(y, 0.1, 1) for name, y in labels.items()}
    with pytest.raises(DataError, match="wikinews/train has one label only") as caught:
        classification.run(WIKINEWS, split(labels), vectors, 0)
    assert "\n" not in str(caught.value)


def test_a_fit_that_did_not_converge_is_noted() -> None:
    labels, vectors = noisy(2, 0.9)
    stretched = {name: v * np.geomspace(1e-3, 1e4, 40, dtype="f4") for name, v in vectors.items()}
    assert classification.run(WIKINEWS, split(labels), vectors, 0).notes == []
    notes = classification.run(WIKINEWS, split(labels), stretched, 0).notes
    assert [note.split()[0] for note in notes] == ["logistic_regression"]


# --- retrieval -----------------------------------------------------------------------------------


def queries_of(relevant: Sequence[Sequence[str]], prefix: str) -> pa.Table:
    n = len(relevant)
    rows = {"id": [f"{prefix}{i}" for i in range(n)], "query": [f"{prefix}問{i}" for i in range(n)]}
    return pa.table({**rows, "relevant_docs": pa.array(relevant, pa.list_(pa.string()))})


def searchable() -> tuple[dict[str, pa.Table], dict[str, Array]]:
    random = np.random.default_rng(11)
    docids = [f"d{i}" for i in range(60)]
    corpus = pa.table({"docid": docids, "text": [f"文書{i}" for i in range(60)]})
    vectors = {"corpus": random.normal(size=(60, 16)) * random.uniform(0.5, 2, size=(60, 1))}
    tables = {"corpus": corpus}
    for name, n in {"validation": 30, "test": 50}.items():
        gold = [random.choice(60, int(size), replace=False) for size in random.integers(1, 15, n)]
        tables[name] = queries_of([[docids[i] for i in docs] for docs in gold], name)
        centres = np.array([vectors["corpus"][docs].mean(axis=0) for docs in gold])
        vectors[name] = centres + 0.5 * random.normal(size=(n, 16))
    return tables, {name: v.astype(np.float32) for name, v in vectors.items()}


def test_retrieval_as_trec_eval() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="has no wheel for every Python")
    tables, vectors = searchable()
    outcome = retrieval.run(SEARCH, tables, vectors, 0)
    docids = tables["corpus"].column("docid").to_pylist()
    wide = {name: v.astype(np.float64) for name, v in vectors.items()}

    def expected(split: str, similarity: str) -> dict[str, float]:
        q, d = wide[split], wide["corpus"]
        scores = {
            "dot": q @ d.T,
            "cosine": cosine_similarity(q, d),
            "euclidean": -np.linalg.norm(q[:, None] - d[None], axis=2),
        }[similarity]
        names = tables[split].column("id").to_pylist()
        gold = tables[split].column("relevant_docs").to_pylist()
        qrels = {q: dict.fromkeys(docs, 1) for q, docs in zip(names, gold, strict=True)}
        top = [np.argsort(-row)[:10] for row in scores]
        run = {
            q: {docids[i]: float(row[i]) for i in best}
            for q, row, best in zip(names, scores, top, strict=True)
        }
        measures = {
            "ndcg_at_10": "ndcg_cut_10",
            "mrr_at_10": "recip_rank",
            "map_at_10": "map_cut_10",
            "recall_at_10": "recall_10",
            "hit_rate_at_1": "success_1",
            "hit_rate_at_3": "success_3",
            "hit_rate_at_5": "success_5",
            "hit_rate_at_10": "success_10",
        }
        found = pytrec_eval.RelevanceEvaluator(qrels, set(measures.values())).evaluate(run)
        return {
            ours: float(np.mean([values[theirs] for values in found.values()]))
            for ours, theirs in measures.items()
        }

    for similarity, scores in outcome.validation.items():
        assert dict(scores) == pytest.approx(expected("validation", similarity), abs=1e-9)
    assert list(outcome.validation) == ["cosine", "dot", "euclidean"]
    assert outcome.chosen == max(
        outcome.validation, key=lambda name: outcome.validation[name]["ndcg_at_10"]
    )
    assert dict(outcome.scores) == pytest.approx(expected("test", outcome.chosen), abs=1e-9)
    assert outcome.score == outcome.scores["ndcg_at_10"]
    assert 0.2 < outcome.score < 0.95
    assert outcome.interval is not None
    assert outcome.interval.low < outcome.score < outcome.interval.high
    assert [row["id"] for row in outcome.predictions] == [f"test{i}" for i in range(50)]
    mean = np.mean([row["ndcg_at_10"] for row in outcome.predictions])
    assert outcome.score == pytest.approx(mean, abs=1e-12)


def exact(relevant: Sequence[Sequence[str]], found: Sequence[Sequence[int]]) -> Outcome:
    """A search in which query i finds the documents of `found[i]`, best first."""
    docids = [f"d{i}" for i in range(30)]
    queries = np.zeros((len(found), 30), dtype=np.float32)
    for row, order in zip(queries, found, strict=True):
        row[list(order)] = np.arange(len(order), 0, -1)
    tables = {name: queries_of(relevant, name) for name in ("validation", "test")}
    tables["corpus"] = pa.table({"docid": docids, "text": [f"文{i}" for i in range(30)]})
    vectors = {"validation": queries, "test": queries, "corpus": np.eye(30, dtype=np.float32)}
    return retrieval.run(SEARCH, tables, vectors, 0)


def test_more_relevant_documents_than_ten_places() -> None:
    outcome = exact([[f"d{i}" for i in range(20)]], [range(10)])
    assert outcome.score == 1.0
    assert outcome.scores["recall_at_10"] == 0.5
    assert outcome.ceiling is None


def test_one_of_three_found_at_rank_one() -> None:
    outcome = exact([["d0", "d20", "d21"]], [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
    assert outcome.score == pytest.approx(0.4693, abs=5e-5)


def test_queries_without_relevant_documents_are_left_out_and_counted() -> None:
    found = [[0, *range(2, 12)], [*range(10), 15]]
    with_it = exact([["d0"], []], found)
    assert with_it.score == exact([["d0"]], found[:1]).score == 1.0
    assert with_it.notes == ["1 queries without relevant documents left out"]
    assert with_it.predictions[1]["ndcg_at_10"] is None
    # a query whose documents are not found counts, as 0
    assert exact([["d0"], ["d29"]], found).score == 0.5


def test_no_query_with_relevant_documents_is_an_error() -> None:
    with pytest.raises(DataError, match="no query has a relevant document"):
        exact([[], []], [[0], [1]])


def test_scores_do_not_depend_on_the_order_of_the_corpus() -> None:
    tables, vectors = searchable()
    vectors = vectors | {"corpus": np.repeat(vectors["corpus"][:12], 5, axis=0)}
    one = retrieval.run(SEARCH, tables, vectors, 0)
    order = np.random.default_rng(0).permutation(60)
    turned = tables | {"corpus": tables["corpus"].take(pa.array(order))}
    two = retrieval.run(SEARCH, turned, vectors | {"corpus": vectors["corpus"][order]}, 0)
    assert one.scores == two.scores
    assert one.validation == two.validation


def test_the_ceiling_by_hand() -> None:
    one, two, three, four = (1 / math.log2(rank + 1) for rank in (1, 2, 3, 4))
    texts = {"a": "x", "b": "x", "c": "y", "d": "z"}
    # its own text only: nothing in the way
    assert ceiling(["q"], [["c"]], texts) == 1.0
    # two documents of one text, one relevant: rank 1 or 2
    assert ceiling(["q"], [["a"]], texts) == pytest.approx((one + two) / 2)
    assert ceiling(["q"], [["a", "b"]], texts) == pytest.approx(1.0)
    # the unmistakable document first, then the two that look alike
    assert ceiling(["q"], [["a", "c"]], texts) == pytest.approx(
        (one + (two + three) / 2) / (one + two)
    )
    # two queries of one wording: one of them sees its document first, the other second
    assert ceiling(["q", "q"], [["c"], ["d"]], texts) == pytest.approx((one + two) / 2)
    assert ceiling(["q", "p"], [["c"], ["d"]], texts) == 1.0
    assert ceiling(["q", "q"], [["c"], ["c"]], texts) == 1.0
    # twenty copies: any of them stands in the first ten places half the time
    copies = {f"d{i}": "x" for i in range(20)}
    gain = math.fsum(1 / math.log2(rank + 1) for rank in range(1, 11))
    assert ceiling(["q"], [["d3"]], copies) == pytest.approx(gain / 20)
    assert ceiling(["q", "p"], [["c"], []], texts) == 1.0
    assert four < three


def test_no_ranking_of_equal_texts_beats_the_ceiling() -> None:
    """Every order of the texts, averaged over every order of their copies."""
    texts = {"a": "x", "b": "x", "c": "x", "d": "y", "e": "z", "f": "z"}
    copies = {t: [d for d in texts if texts[d] == t] for t in "xyz"}
    gains = [1 / math.log2(rank + 1) for rank in range(1, 7)]
    for relevant in (["a", "d"], ["a", "b", "e"], ["a", "d", "e"], ["a"]):
        best = 0.0
        for order in itertools.permutations("xyz"):
            values = []
            for parts in itertools.product(*(itertools.permutations(copies[t]) for t in order)):
                ranking = [doc for part in parts for doc in part]
                hits = [g for g, d in zip(gains, ranking, strict=True) if d in relevant]
                values.append(math.fsum(hits) / math.fsum(gains[: len(relevant)]))
            best = max(best, float(np.mean(values)))
        assert ceiling(["q"], [relevant], texts) == pytest.approx(best, abs=1e-12)


# --- clustering ----------------------------------------------------------------------------------


def clustered(noise: float) -> tuple[dict[str, pa.Table], dict[str, list[int]], dict[str, Array]]:
    labels = {"validation": [i % 13 for i in range(104)], "test": [i * 5 % 13 for i in range(130)]}
    vectors = {name: blobs(y, noise, len(y)) for name, y in labels.items()}
    return split(labels), labels, vectors


def direct(name: str, seed: int) -> Any:
    return {
        "minibatch_kmeans": MiniBatchKMeans(13, n_init="auto", random_state=seed),
        "agglomerative": AgglomerativeClustering(13),
        "bisecting_kmeans": BisectingKMeans(13, random_state=seed),
        "birch": Birch(n_clusters=13),
    }[name]


def test_clustering_as_scikit_learn() -> None:
    tables, labels, vectors = clustered(0.3)
    outcome = clustering.run(REASON, tables, vectors, 3)
    for name, scores in outcome.validation.items():
        seeds = range(3, 8) if name in ("minibatch_kmeans", "bisecting_kmeans") else [3]
        found = [direct(name, s).fit_predict(vectors["validation"]) for s in seeds]
        values = [v_measure_score(labels["validation"], clusters) for clusters in found]
        assert scores["v_measure"] == pytest.approx(np.mean(values), abs=1e-12)
    assert len(outcome.validation) == 4
    best = max(outcome.validation.values(), key=lambda scores: scores["v_measure"])
    assert outcome.validation[outcome.chosen] == best


@pytest.mark.parametrize("name", ["minibatch_kmeans", "bisecting_kmeans"])
def test_the_spread_over_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "SETTINGS", {name: clustering.SETTINGS[name]})
    tables, labels, vectors = clustered(0.3)
    outcome = clustering.run(REASON, tables, vectors, 3)
    found = [direct(name, seed).fit_predict(vectors["test"]) for seed in range(3, 8)]
    values = [v_measure_score(labels["test"], clusters) for clusters in found]
    assert outcome.spread is not None
    assert outcome.spread["seeds"] == [3, 4, 5, 6, 7]
    assert outcome.spread["scores"] == pytest.approx(values, abs=1e-12)
    assert outcome.spread["standard_deviation"] == pytest.approx(np.std(values), abs=1e-9)
    assert outcome.spread["low"] == min(outcome.spread["scores"]) < outcome.score
    assert outcome.spread["high"] == max(outcome.spread["scores"]) > outcome.score
    assert outcome.score == pytest.approx(np.mean(values), abs=1e-12)
    assert [row["cluster"] for row in outcome.predictions] == found[0].tolist()
    assert [row["id"] for row in outcome.predictions] == [f"test{i}" for i in range(130)]
    assert [row["reference"] for row in outcome.predictions] == [
        REASON.labels[y] for y in labels["test"]
    ]
    assert clustering.run(REASON, tables, vectors, 3) == outcome
    assert clustering.run(REASON, tables, vectors, 40).spread != outcome.spread


def test_separable_clusters_score_one() -> None:
    tables, _, vectors = clustered(0.01)
    outcome = clustering.run(REASON, tables, vectors, 0)
    assert outcome.score == 1.0
    full = [name for name, scores in outcome.validation.items() if scores["v_measure"] == 1.0]
    assert len(full) > 1
    assert outcome.chosen == full[0]


def test_fewer_distinct_vectors_than_clusters_are_noted() -> None:
    tables, labels, _ = clustered(0.3)
    vectors = {n: np.eye(3, dtype=np.float32)[np.asarray(y) % 3] for n, y in labels.items()}
    notes = clustering.run(REASON, tables, vectors, 0).notes
    assert any("fewer than 13 clusters" in note for note in notes)


@pytest.mark.parametrize("labels", [[4] * 20, [0, 1, 2]])
def test_one_label_or_fewer_rows_than_clusters_is_an_error(labels: list[int]) -> None:
    tables, _, vectors = clustered(0.3)
    spoiled = tables | {"test": labelled(labels)}
    with pytest.raises(DataError, match="ews_reason/test has") as caught:
        clustering.run(REASON, spoiled, vectors | {"test": blobs(labels, 0.1, 1)}, 0)
    assert "\n" not in str(caught.value)


# --- what they share -----------------------------------------------------------------------------


def test_choose_takes_the_first_of_the_best() -> None:
    assert choose({"a": {"m": 0.1}, "b": {"m": 0.7}, "c": {"m": 0.7}}, "m") == "b"


def test_roles_of_texts() -> None:
    tables, _ = searchable()
    found = inputs(SEARCH, tables)
    assert {name: role for name, (role, _) in found.items()} == {
        "corpus": Role.DOCUMENT,
        "validation": Role.QUERY,
        "test": Role.QUERY,
    }
    assert found["corpus"][1][:2] == ["文書0", "文書1"]
    assert found["test"][1][1] == "test問1"
    assert inputs(WIKINEWS, split({"train": [0]})) == {"train": (Role.CLASSIFICATION, ["文0"])}
    assert inputs(REASON, split({"test": [0]})) == {"test": (Role.CLUSTERING, ["文0"])}


def test_the_kind_of_a_task_picks_its_protocol() -> None:
    labels, vectors = noisy(2, 0.5)
    direct_one = classification.run(WIKINEWS, split(labels), vectors, 0)
    assert score(WIKINEWS, split(labels), vectors, 0) == direct_one
    tables, vectors = searchable()
    assert score(SEARCH, tables, vectors, 0) == retrieval.run(SEARCH, tables, vectors, 0)
    tables, _, vectors = clustered(0.3)
    assert score(REASON, tables, vectors, 1) == clustering.run(REASON, tables, vectors, 1)
