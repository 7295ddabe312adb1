"""The lexical baseline: hashed character n-grams."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.lexical import DIMENSIONS
from jfinteb.loaders.errors import UsageError


def lexical(**options: object) -> TextEncoder:
    return open_encoder(EncoderOptions(model="lexical", backend="lexical", **options))  # type: ignore[arg-type]


def test_shapes_and_lengths() -> None:
    vectors = lexical().encode(["売上高", "営業利益が増えた"], "query")
    assert vectors.shape == (2, DIMENSIONS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-6)


def test_one_character_falls_into_one_bucket_by_the_logarithm_of_its_count() -> None:
    raw = lexical(normalize=False).encode(["円"], "query")[0]
    assert sorted(np.abs(raw[raw != 0]).tolist()) == pytest.approx([np.log(2)])
    # 円, 円円 and 円円円 occur 3, 2 and 1 times
    raw = lexical(normalize=False).encode(["円円円"], "query")[0]
    assert sorted(np.abs(raw[raw != 0])) == pytest.approx([np.log(2), np.log(3), np.log(4)])


def test_shared_characters_make_texts_alike() -> None:
    near, text, far = lexical().encode(["売上高が増えた", "売上高は増えた", "景気動向"], "query")
    assert near @ text > 0.4
    assert abs(far @ text) < 0.2


def test_width_and_case_do_not_count() -> None:
    vectors = lexical().encode(["ＲＯＥ１０％", "roe10%", "ｶﾞｽ", "ガス"], "query")
    assert np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(vectors[2], vectors[3])


def test_texts_without_a_shared_character_are_at_right_angles_or_nearly() -> None:
    a, b = lexical().encode(["円", "株"], "query")
    assert a @ b == 0


@pytest.mark.parametrize("blank", ["", "　", "\n", " \t\u3000"])
def test_blank_texts_are_zero_also_under_a_prompt(blank: str) -> None:
    encoder = lexical(prompts={"query": "query: "})
    vectors = encoder.encode([blank, "円"], "query")
    assert not vectors[0].any()
    assert vectors[1].any()
    assert encoder.counts.blank == 1


def test_cut_then_scaled() -> None:
    full = lexical(normalize=False).encode(["売上高が増えた"], "query")[0, :256].astype(float)
    cut = lexical(truncate_dim=256).encode(["売上高が増えた"], "query")[0]
    assert cut == pytest.approx(full / np.linalg.norm(full), abs=1e-6)


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_as_many_vectors_as_texts_in_order(n: int) -> None:
    encoder = lexical(truncate_dim=64)
    texts = [f"第{i}期" for i in range(n)]
    vectors = encoder.encode(texts, "document")
    assert vectors.shape == (n, 64)
    assert encoder.counts.texts == n
    for i in range(0, n, 977):
        assert np.array_equal(vectors[i], encoder.encode([texts[i]], "document")[0])


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "cls"},
        {"layer": 1},
        {"dtype": "bfloat16"},
        {"max_length": 5},
        {"revision": "main"},
    ],
)
def test_options_it_does_not_have(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="lexical backend has no") as caught:
        lexical(**options)
    assert "\n" not in str(caught.value)


def test_no_vector_depends_on_the_hash_seed() -> None:
    code = (
        "from jfinteb.eval.backends import *\n"
        "e = open_encoder(EncoderOptions(model='lexical', backend='lexical'))\n"
        "import hashlib; print(hashlib.sha256(e.encode(['売上高'], 'query').tobytes()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1", "PATH": ""},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
