"""All eight folders, copied away, load with ``evaluate.load`` offline and without jfinteb."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jfinteb.eval.metrics

METRICS = Path(jfinteb.eval.metrics.__file__).parent
RANKED = {"predictions": [["d1", "d9"], ["d8", "d2"], []], "references": [["d1"], ["d2"], ["d3"]]}
LABELS = {"predictions": [0, 1, 2, 2], "references": [0, 1, 0, 3]}
NAMES = {"predictions": ["×", "○", "×"], "references": ["×", "○", "○"]}

# Metric, keyword arguments, expected result (by hand)
CALLS: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    (
        "ndcg_at_k",
        RANKED,
        {"ndcg_at_k": (1 + 1 / math.log2(3)) / 3, "n_queries": 3, "n_skipped": 0},
    ),
    ("mrr_at_k", RANKED, {"mrr_at_k": (1 + 1 / 2) / 3, "n_queries": 3, "n_skipped": 0}),
    ("hit_rate_at_k", RANKED, {"hit_rate_at_k": 2 / 3, "n_queries": 3, "n_skipped": 0}),
    ("recall_at_k", RANKED | {"k": 1}, {"recall_at_k": 1 / 3, "n_queries": 3, "n_skipped": 0}),
    ("map_at_k", RANKED | {"k": 1}, {"map_at_k": 1 / 3, "n_queries": 3, "n_skipped": 0}),
    ("accuracy", NAMES, {"accuracy": 2 / 3}),
    ("accuracy", LABELS, {"accuracy": 2 / 4}),
    ("macro_f1", NAMES, {"macro_f1": 2 / 3, "n_classes": 2}),
    ("macro_f1", LABELS | {"labels": [0, 1, 2, 3, 4]}, {"macro_f1": 5 / 12, "n_classes": 4}),
    # "1" and "01" are two labels; read as ints they would be one
    ("macro_f1", {"predictions": ["1"], "references": ["01"]}, {"macro_f1": 0.0, "n_classes": 2}),
    (
        "v_measure",
        {"predictions": [0, 0, 1, 1], "references": ["a", "a", "b", "c"]},
        {"v_measure": 0.8, "homogeneity": 2 / 3, "completeness": 1.0},
    ),
    (
        "v_measure",
        {"predictions": ["x", "x", "y", "y"], "references": [0, 0, 1, 2]},
        {"v_measure": 0.8, "homogeneity": 2 / 3, "completeness": 1.0},
    ),
]

# What evaluate 0.4.6 with datasets 5 would cast in silence: metric, batches, part of the message
REFUSED: list[tuple[str, list[list[Any]], str]] = [
    ("ndcg_at_k", [[[["0"], [0]], [["0"], ["1"]]]], "predictions[1] holds the id 0 (int)"),
    ("recall_at_k", [[[["a"]], [["a", 1]]]], "references[0] holds the id 1 (int)"),
    ("map_at_k", [[[["a"]], [["a"]]], [[["b"]], [[2]]]], "references[0] holds the id 2 (int)"),
    ("mrr_at_k", [[["ab"], [["a"]]]], "predictions[0] is 'ab' (str)"),
    ("hit_rate_at_k", [[[["a"], ["b"]], [["a"]]]], "predictions hold 2 queries and references 1"),
    ("macro_f1", [[["0"], [0]]], "predictions hold '0' and references 0"),
    ("macro_f1", [[["a"], ["a"]], [[0], [0]]], "predictions of this batch hold 0"),
    ("macro_f1", [[[], []]], "are empty"),
    ("accuracy", [[[1.7], [1]]], "predictions[0] is 1.7 (float)"),
    ("accuracy", [[["a", 0], ["a", "0"]]], "predictions holds 'a' and, at 1, 0"),
    ("v_measure", [[[0, 1], ["a", "a"]]], "references hold the single class 'a'"),
    ("v_measure", [[[0, None], ["a", "b"]]], "predictions[1] is None"),
]

SCRIPT = """
import doctest, json, socket, sys

def refuse(*args):
    raise AssertionError("a metric reached for the network")

socket.socket.connect = refuse
sys.modules["jfinteb"] = None  # also where it is installed, no metric can import it
import evaluate

calls, refused, names = json.loads(sys.stdin.read())
out = {"results": [], "one_by_one": [], "errors": [], "readme": {}}
for name, kwargs in calls:
    out["results"].append(evaluate.load(f"eval/metrics/{name}").compute(**kwargs))
    metric = evaluate.load(f"eval/metrics/{name}")
    for prediction, reference in zip(kwargs.pop("predictions"), kwargs.pop("references")):
        metric.add(prediction=prediction, reference=reference)
    out["one_by_one"].append(metric.compute(**kwargs))
for name, batches in refused:
    metric = evaluate.load(f"eval/metrics/{name}")
    try:
        for predictions, references in batches:
            metric.add_batch(predictions=predictions, references=references)
        out["errors"].append(f"nothing was raised, but {metric.compute()}")
    except (TypeError, ValueError) as error:
        out["errors"].append(str(error))
for name in names:
    with open(f"eval/metrics/{name}/README.md", encoding="utf-8") as card:
        # a closing fence would be read as expected output
        text = card.read().replace("```\\n", "\\n")
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    out["readme"][name] = doctest.DocTestRunner().run(test)
print("RESULT" + json.dumps(out))
"""


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run every case in one fresh interpreter, in a folder that holds the metrics and no more."""
    room = tmp_path_factory.mktemp("elsewhere")
    names = sorted(path.parent.name for path in METRICS.glob("*/README.md"))
    for name in names:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(METRICS / name, room / "eval" / "metrics" / name, ignore=ignore)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "PYTHONUTF8": "1"}
    environment["HF_HOME"] = str(room / "home")
    cases = [[call[:2] for call in CALLS], [case[:2] for case in REFUSED], names]
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8", "-c", SCRIPT],
        input=json.dumps(cases),
        capture_output=True,
        encoding="utf-8",
        cwd=room,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report, _, payload = done.stdout.partition("RESULT")
    return {**json.loads(payload), "report": report}


@pytest.mark.parametrize("way", ["results", "one_by_one"])
@pytest.mark.parametrize("row", range(len(CALLS)), ids=[name for name, *_ in CALLS])
def test_a_copied_folder_computes(isolated: Any, row: int, way: str) -> None:
    assert isolated[way][row] == pytest.approx(CALLS[row][2], abs=1e-12)


@pytest.mark.parametrize("row", range(len(REFUSED)), ids=[name for name, *_ in REFUSED])
def test_what_evaluate_would_cast_is_refused(isolated: Any, row: int) -> None:
    assert REFUSED[row][2] in isolated["errors"][row]


def test_all_eight_metrics_are_called() -> None:
    on_disk = {path.parent.name for path in METRICS.glob("*/README.md")}
    assert {name for name, *_ in CALLS} == {name for name, *_ in REFUSED} == on_disk
    assert len(on_disk) == 8


def test_the_examples_in_the_cards_are_true(isolated: Any) -> None:
    for name, (failed, attempted) in isolated["readme"].items():
        assert attempted >= 3, f"the card of {name} has no example"
        assert failed == 0, isolated["report"]
