"""How fast vectors are scored: top-k beside the bare product, Ward beside scikit-learn, every task.

    python tests/bench/bench_score.py                         # some fifteen minutes on two cores
    python tests/bench/bench_score.py --documents 200000 --rounds 3
    python tests/bench/bench_score.py --package hub           # vectors of a package's real rows

Runs are paired: in each round every way takes its turn, and ratios are medians of the rounds'
ratios, with their lowest and highest. Top-k is measured on one file of vectors, which is not held
in memory, against the float32 product of the same blocks and nothing else, on all cores. Clustering
and tasks run on one thread, as in a run. Vectors are synthetic (a direction that all share, one a
label, and noise), in numbers as the cards declare them; with --package they are the lexical
encoder's of the real rows, reduced to as many dimensions. Labels of both ways are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
from peak import Peak
from rich.console import Console
from rich.table import Table
from sklearn.cluster import AgglomerativeClustering, Birch
from sklearn.decomposition import TruncatedSVD
from threadpoolctl import threadpool_limits

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.protocols import clustering, inputs, score
from jfinteb.eval.ranking import SIMILARITIES, rank
from jfinteb.eval.ward import Ward, WardBirch
from jfinteb.loaders.data import load_tables, open_origin
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.task import CORPUS, Kind, Task, get_suite

Vectors = npt.NDArray[np.float32]
CLUSTERINGS = {
    "Ward": (lambda: AgglomerativeClustering(13), lambda: Ward(13)),
    "Birch": (lambda: Birch(n_clusters=13), lambda: WardBirch(13)),
}


def paired(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Seconds of each way in each round, ratios to the first way, what each returned last."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    last: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in ways.items():
            start, used = time.perf_counter(), time.process_time()
            last[name] = run()
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - used)
    first = seconds[next(iter(ways))]
    ratios = {n: [a / b for a, b in zip(s, first, strict=True)] for n, s in seconds.items()}
    return {"seconds": seconds, "cpu": cpu, "ratios": ratios, "last": last}


def anonymous() -> int:
    """Bytes in memory without pages of files."""
    memory = psutil.Process().memory_info()
    return int(memory.rss - memory.shared)


def median(values: Iterable[float]) -> str:
    return f"{statistics.median(values):.3f}"


def spread(values: Iterable[float]) -> str:
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f}-{values[-1]:.2f})"


def similar(labels: npt.NDArray[np.int64], d: int, seed: int) -> Vectors:
    """Unit vectors that share a direction, with one a label and noise; cosines about 0.7."""
    random = np.random.default_rng(seed)
    shared = np.random.default_rng(0).standard_normal((1 + int(labels.max()), d))
    found = 1.5 * shared[0] + 0.4 * shared[labels] + random.standard_normal((len(labels), d))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found.astype(np.float32)


# --- top-k ----------------------------------------------------------------------------------------


def top_k(n: int, m: int, d: int, rounds: int, folder: Path) -> dict[str, Any]:
    path = folder / "documents"
    written = np.memmap(path, dtype=np.float32, mode="w+", shape=(n, d))
    for start in range(0, n, 50_000):
        part = np.random.default_rng(start).integers(0, 1000, min(50_000, n - start))
        written[start : start + len(part)] = similar(part, d, start)
    written.flush()
    del written
    documents: Vectors = np.memmap(path, dtype=np.float32, mode="r", shape=(n, d))
    queries = similar(np.random.default_rng(1).integers(0, 1000, m), d, 1)
    names = [f"q{i}" for i in range(m)], [f"d{i}" for i in range(n)]

    def bare() -> None:
        for start in range(0, n, 4096):
            for first in range(0, m, 512):
                queries[first : first + 512] @ documents[start : start + 4096].T

    def ranked(similarity: str) -> Callable[[], Any]:
        return lambda: rank(queries, documents, *names, similarity, 10)

    ways = {"bare product": bare, **{s: ranked(s) for s in SIMILARITIES}}
    found = paired(ways, rounds)
    first = anonymous()
    with Peak(
        lambda: anonymous() - first, seconds=0.02
    ) as memory:  # by itself: sampling takes time from what is timed
        ranked("cosine")()
    found["peak_mb"] = memory.bytes / 1e6
    found.pop("last")
    return found


# --- clustering -----------------------------------------------------------------------------------


def clusterings(vectors: Vectors, rounds: int) -> dict[str, Any]:
    found = {}
    with threadpool_limits(1):
        for name, (theirs, ours) in CLUSTERINGS.items():
            ways = {"scikit-learn": theirs, "ours": ours}
            runs = {
                w: (lambda make: lambda: make().fit_predict(vectors))(m) for w, m in ways.items()
            }
            result = paired(runs, rounds)
            last = result.pop("last")
            result["equal"] = bool(np.array_equal(last["scikit-learn"], last["ours"]))
            found[name] = result
    return found


# --- tasks ----------------------------------------------------------------------------------------


def synthetic(task: Task, d: int) -> tuple[dict[str, pa.Table], dict[str, Vectors]]:
    """Rows and vectors of a task, as many as its card declares (1,000 where it does not)."""
    tables, vectors = {}, {}
    sizes = {name: split.rows or 1000 for name, split in task.splits.items()}
    for seed, (name, n) in enumerate(sizes.items(), start=1):
        ids = [f"{name}{i}" for i in range(n)]
        if task.kind is not Kind.RETRIEVAL:
            labels = np.arange(n) % len(task.labels)
            tables[name] = pa.table({"id": ids, "text": ids, "label": labels})
            vectors[name] = similar(labels, d, seed)
            continue
        about = np.arange(n) % sizes[CORPUS]
        vectors[name] = similar(about, d, seed)
        if name == CORPUS:
            tables[name] = pa.table({"docid": ids, "text": ids})
        else:
            relevant = [[f"{CORPUS}{i}"] for i in about]
            tables[name] = pa.table({"id": ids, "query": ids, "relevant_docs": relevant})
    return tables, vectors


def real(task: Task, d: int, package: str) -> tuple[dict[str, pa.Table], dict[str, Vectors]]:
    """Rows of a package, and the lexical encoder's vectors of their texts, reduced."""
    tables, _ = load_tables(task, open_origin(package))
    encoder = open_encoder(EncoderOptions(model="lexical", backend="lexical"))
    wide = {s: encoder.encode(texts, role) for s, (role, texts) in inputs(task, tables).items()}
    fitted = TruncatedSVD(d, random_state=0).fit(np.concatenate(list(wide.values()))[:8000])
    vectors = {}
    for split, rows in wide.items():
        reduced = fitted.transform(rows)
        reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-12)
        vectors[split] = reduced.astype(np.float32)
    return tables, vectors


def plain(task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors]) -> Any:
    """The protocol with scikit-learn's own clusterings."""
    theirs = clustering.SETTINGS | {
        "agglomerative": lambda n, seed: AgglomerativeClustering(n),
        "birch": lambda n, seed: Birch(n_clusters=n),
    }
    with mock.patch.object(clustering, "SETTINGS", theirs):
        return score(task, tables, vectors, 0)


def tasks(d: int, rounds: int, package: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for task in get_suite("all"):
        try:
            data = real(task, d, package) if package else synthetic(task, d)
        except JfintebError as error:
            found[task.name] = {"left_out": str(error)}
            continue
        ways: dict[str, Callable[[], Any]] = {"ours": lambda t=task, x=data: score(t, *x, 0)}
        if task.kind is Kind.CLUSTERING:
            ways = {"plain": lambda t=task, x=data: plain(t, *x), **ways}
        with threadpool_limits(1):
            ways["ours"]()  # imports, and pages of memory
            result = paired(ways, rounds)
        last = result.pop("last")
        result["equal"] = all(outcome == last["ours"] for outcome in last.values())
        result["score"] = last["ours"].score
        found[task.name] = result
    return found


# --- what is printed ------------------------------------------------------------------------------


def show(results: Mapping[str, Any], console: Console) -> None:
    table = Table("part", "way", "seconds", "CPU", "ratio to the first (lowest-highest)", "equal")
    for part, measured in results["parts"].items():
        if "left_out" in measured:
            table.add_row(part, "left out", "", "", measured["left_out"], "")
            continue
        for way, seconds in measured["seconds"].items():
            cpu, ratios = measured["cpu"][way], measured["ratios"][way]
            equal = str(measured.get("equal", ""))
            table.add_row(part, way, median(seconds), median(cpu), spread(ratios), equal)
    console.print(table)
    for name, value in results["sums"].items():
        console.print(f"{name}: {value:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default="top-k,clustering,tasks", help="comma-separated")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=6500, help="of the clusterings")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", help="a package folder; vectors are then of its rows")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    wanted, d = args.parts.split(","), args.dimensions
    parts: dict[str, Any] = {}
    sums: dict[str, float] = {}
    if "top-k" in wanted:
        with tempfile.TemporaryDirectory() as folder:
            found = top_k(args.documents, args.queries, d, args.rounds, Path(folder))
        sums["top-k: megabytes of memory at most, beside vectors and ids"] = found.pop("peak_mb")
        parts[f"top-10 of {args.documents:,} by {args.queries:,}"] = found
    if "clustering" in wanted:
        vectors = similar(np.arange(args.rows) % 13, d, 3)
        parts |= {
            f"{k}, {args.rows:,} rows": v for k, v in clusterings(vectors, args.rounds).items()
        }
    if "tasks" in wanted:
        scored = tasks(d, args.rounds, args.package)
        parts |= scored
        done = [found["seconds"]["ours"] for found in scored.values() if "seconds" in found]
        sums["tasks: seconds of scoring in all"] = sum(map(statistics.median, done))
    results = {
        "arguments": {k: str(v) for k, v in vars(args).items()},
        "parts": parts,
        "sums": sums,
    }
    show(results, Console(width=120))
    if args.out:
        args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
