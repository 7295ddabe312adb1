"""The Hub's vocabularies for a dataset card, and the check of our cards against them, offline.

Sources, read for the facts: licences from the Hub's documentation ("Licenses", hub-docs,
docs/hub/repositories-licenses.md) with the Llama ids that were added to it later (hub-docs pull
request 1619); task categories from huggingface.js (packages/tasks/src/pipelines.ts, those a data
set may have); sizes, creators and languages are also data files of the `datasets` package, which
a test compares. A Hub that has learnt a new word since is no reason to upload unchecked: add it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import resources
from typing import Any

from jfinteb.loaders.reader import HUB_KEYS
from jfinteb.loaders.task import Task

__all__ = [
    "ANNOTATIONS_CREATORS",
    "LICENSES",
    "SIZE_CATEGORIES",
    "TASK_CATEGORIES",
    "languages",
    "validate",
    "validate_front",
]

_LICENSES = """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc
    cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0
    cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0
    cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0 cdla-sharing-1.0
    creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 gemma
    gfdl gpl gpl-2.0 gpl-3.0 isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2
    llama3.3 lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openrail openrail++ osl-3.0
    other pddl postgresql unknown unlicense wtfpl zlib
"""
_TASK_CATEGORIES = """
    audio-classification audio-to-audio automatic-speech-recognition depth-estimation
    feature-extraction fill-mask graph-ml image-classification image-feature-extraction
    image-segmentation image-to-3d image-to-image image-to-text image-to-video mask-generation
    multiple-choice object-detection question-answering reinforcement-learning robotics
    sentence-similarity summarization table-question-answering table-to-text
    tabular-classification tabular-regression tabular-to-text text-classification
    text-generation text-ranking text-retrieval text-to-3d text-to-audio text-to-image
    text-to-speech text-to-video text2text-generation time-series-forecasting
    token-classification translation unconditional-image-generation video-classification
    video-text-to-text visual-question-answering voice-activity-detection
    zero-shot-classification zero-shot-image-classification zero-shot-object-detection
"""
LICENSES = frozenset(_LICENSES.split())
TASK_CATEGORIES = frozenset(_TASK_CATEGORIES.split())
ANNOTATIONS_CREATORS = frozenset(
    {"crowdsourced", "expert-generated", "found", "machine-generated", "no-annotation", "other"}
)
SIZE_CATEGORIES = (
    "n<1K",
    "1K<n<10K",
    "10K<n<100K",
    "100K<n<1M",
    "1M<n<10M",
    "10M<n<100M",
    "100M<n<1B",
    "1B<n<10B",
    "10B<n<100B",
    "100B<n<1T",
    "n>1T",
    "unknown",
)
_SOURCE = re.compile(r"original|extended(\|[\w.-]+)?")
_REQUIRED = ("pretty_name", "license", "language")
_SINGLE = frozenset({"pretty_name", "license_name", "license_link"})
_PACKAGE_KEYS = frozenset({"configs", "dataset_info"})


@functools.cache
def languages() -> frozenset[str]:
    """Language codes of ISO 639, as the `datasets` package lists them."""
    listed = resources.files("datasets.utils.resources") / "languages.json"
    return frozenset(json.loads(listed.read_text(encoding="utf-8"))) | {"multilingual"}


def validate(tasks: Iterable[Task]) -> list[str]:
    """What the Hub would refuse, or show wrongly, in the cards of these tasks.

    Returns:
        One line a fault, naming card and key; empty where all is well.
    """
    return [fault for task in tasks for fault in validate_front(f"{task.name}.md", task.hub)]


def validate_front(name: str, front: Mapping[str, Any]) -> list[str]:
    """What is wrong with a front matter, a card's or the package's README's.

    Args:
        name: what messages call it.
        front: the parsed YAML, without `jfinteb:`.
    """
    wanted = [*_REQUIRED]
    if "other" in _words(front, "license"):
        wanted += ["license_name", "license_link"]
    faults = [f"{key}: missing, expected {_rules()[key][1]}" for key in wanted if key not in front]
    for key in front:
        if key in _rules():
            holds, expected = _rules()[key]
            faults += [
                f"{key}: found {word!r}, expected {expected}"
                for word in _words(front, key)
                if not (isinstance(word, str) and holds(word))
            ]
        elif key not in _PACKAGE_KEYS:
            faults.append(f"{key}: unknown key, expected one of {', '.join(_rules())}")
    return [f"{name}: {fault}" for fault in faults]


def _words(front: Mapping[str, Any], key: str) -> list[Any]:
    value = front.get(key)
    return value if isinstance(value, list) and key not in _SINGLE else [value]


@functools.cache
def _rules() -> Mapping[str, tuple[Callable[[str], object], str]]:
    """Key -> whether a word may stand there, and what may."""
    closed: Mapping[str, Collection[str]] = {
        "license": LICENSES,
        "language": languages(),
        "task_categories": TASK_CATEGORIES,
        "size_categories": SIZE_CATEGORIES,
        "annotations_creators": ANNOTATIONS_CREATORS,
    }
    listed = {key: (frozenset(words).__contains__, _some(words)) for key, words in closed.items()}
    free = dict.fromkeys(HUB_KEYS, (str.strip, "text that is not empty"))
    source = (_SOURCE.fullmatch, "original or extended|<name>")
    return {**free, **listed, "source_datasets": source}


def _some(words: Collection[str]) -> str:
    if len(words) > 20:
        return f"one of the Hub's {len(words):,} words (see jfinteb.build.vocabulary)"
    return " or ".join(words if isinstance(words, tuple) else sorted(words))
