"""Whole encoders on tiny random models: against sentence-transformers, and what may go wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.base import finish
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UnavailableError, UsageError
from jfinteb.loaders.task import Role

ALL = ["bert", "xlm_roberta", "llama", "gpt2", "modernbert", "t5"]
POOLINGS: list[tuple[str | list[str], str]] = [
    ("mean", "mean"),
    ("cls", "cls"),
    ("lasttoken", "last"),
    ("max", "max"),
    ("weightedmean", "weighted_mean"),
    ("mean_sqrt_len_tokens", "mean_sqrt_len"),
    (["cls", "mean"], "cls+mean"),
]
Open = Callable[..., TextEncoder]
Declare = Callable[..., Path]
Fork = Callable[[str], Path]
NAN_TENSOR = "encoder.layer.1.output.dense.weight"


@pytest.fixture
def fork(tiny: dict[str, Path], tmp_path: Path) -> Fork:
    """A copy of a tiny model, to be spoiled."""
    return lambda name: Path(shutil.copytree(tiny[name], tmp_path / name))


def reference(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        library = pytest.importorskip("sentence_transformers", reason="test extra")
    return library.SentenceTransformer(str(folder), device="cpu")


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def cosines(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    found: np.ndarray[Any, Any] = (a * b).sum(axis=1) / lengths
    return found


# --- against sentence-transformers ---------------------------------------------------------------


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("theirs", "ours"), POOLINGS, ids=[ours for _, ours in POOLINGS])
def test_as_sentence_transformers(
    theirs: str | list[str],
    ours: str,
    normalize: bool,
    fork: Fork,
    declare: Declare,
    open_tiny: Open,
    sentences: list[str],
) -> None:
    pooling = {"embedding_dimension": 32, "pooling_mode": theirs, "include_prompt": True}
    folder = declare(fork("bert"), pooling, *(["Normalize"] if normalize else []))
    edit(folder / "sentence_bert_config.json", max_seq_length=24)
    encoder = open_tiny(folder, prompts={"query": "query: ", "document": "passage: "})
    assert (encoder.spec.pooling, encoder.spec.normalize) == (ours, normalize)
    assert encoder.spec.max_length == 24
    model = reference(folder)
    for role, prompt in {"query": "query: ", "document": "passage: ", "clustering": ""}.items():
        expected = model.encode(sentences, prompt=prompt, batch_size=5)
        # a sum over the root of the count grows with it; the others are of the size of states
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(encoder.encode(sentences, role) - expected).max() < 1e-6 * scale
    assert encoder.counts.truncated > 0


@pytest.mark.parametrize("theirs", ["mean", "max", "weightedmean", "mean_sqrt_len_tokens"])
def test_include_prompt_false_as_sentence_transformers(
    theirs: str, fork: Fork, declare: Declare, open_tiny: Open, sentences: list[str]
) -> None:
    """WordPiece merges nothing over the prompt's end, so that counting its tokens is right too."""
    pooling = {"embedding_dimension": 32, "pooling_mode": theirs, "include_prompt": False}
    folder = declare(fork("bert"), pooling, "Normalize")
    encoder = open_tiny(folder, prompts={"query": "query: "})
    assert encoder.spec.pool_prompt is False
    expected = reference(folder).encode(sentences, prompt="query: ")
    assert np.abs(encoder.encode(sentences, "query") - expected).max() < 1e-6
    with_prompt = open_tiny(folder, prompts={"query": "query: "}, pool_prompt=True)
    assert np.abs(with_prompt.encode(sentences, "query") - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("flags", "ours"),
    [
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls+mean"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted_mean"),
    ],
)
def test_older_pooling_files(
    flags: dict[str, bool], ours: str, fork: Fork, declare: Declare, open_tiny: Open
) -> None:
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": False} | flags
    assert open_tiny(declare(fork("bert"), pooling)).spec.pooling == ours


def test_a_module_that_pooling_does_not_cover(
    fork: Fork, declare: Declare, open_tiny: Open
) -> None:
    folder = declare(fork("bert"), {"pooling_mode": "mean"}, "Dense", "Normalize")
    with pytest.raises(ModelError, match="Dense"):
        open_tiny(folder)
    encoder = open_tiny(folder, pooling="mean")
    assert any("Dense" in note for note in encoder.notes)


def test_declared_prompts_that_are_not_used_are_a_warning(
    fork: Fork, declare: Declare, open_tiny: Open
) -> None:
    folder = declare(fork("bert"), {"pooling_mode": "mean"}, prompts={"query": "query: "})
    warned = [note for note in open_tiny(folder).notes if note.startswith("warning")]
    assert len(warned) == 1
    assert "'query: '" in warned[0]
    both = {"query": "query: ", "passage": "passage: "}
    folder = declare(folder, {"pooling_mode": "mean"}, prompts=both)
    (warning,) = [n for n in open_tiny(folder, prompts={"query": "q"}).notes if "warning" in n]
    assert warning.endswith("and is run with none for document")
    encoder = open_tiny(folder, prompts={"query": "query: ", "document": "passage: "})
    assert not [note for note in encoder.notes if note.startswith("warning")]


@pytest.mark.skipif("JFINTEB_MODEL" not in os.environ, reason="JFINTEB_MODEL names no folder")
def test_a_real_model_as_sentence_transformers(sentences: list[str]) -> None:
    folder = Path(os.environ["JFINTEB_MODEL"])
    prompts = {"query": "query: ", "document": "passage: "}
    encoder = open_encoder(EncoderOptions(model=str(folder), device="cpu", prompts=prompts))
    model = reference(folder)
    for role, prompt in prompts.items():
        expected = model.encode(sentences, prompt=prompt, batch_size=8)
        assert cosines(encoder.encode(sentences, role), expected).min() >= 0.99999


# --- a text's vector is its own ------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["auto", "last", "cls+max"])
@pytest.mark.parametrize("name", ALL)
def test_alone_or_in_a_batch_of_32(
    name: str, pooling: str, open_tiny: Open, sentences: list[str]
) -> None:
    encoder = open_tiny(name, pooling=pooling)
    batch = encoder.encode(sentences, "query")
    alone = np.vstack([encoder.encode([text], "query") for text in sentences])
    assert len(sentences) == 32
    assert cosines(batch, alone).min() >= 0.9999
    assert len(np.unique(batch.round(4), axis=0)) == 32


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_the_batch_budget_changes_nothing(name: str, open_tiny: Open, sentences: list[str]) -> None:
    one = open_tiny(name, batch_tokens=1).encode(sentences, "query")
    many = open_tiny(name, batch_tokens=100_000).encode(sentences, "query")
    assert np.abs(one - many).max() < 1e-6


def test_as_the_bare_model_gives_it(tiny: dict[str, Path], open_tiny: Open) -> None:
    text = "当社の売上高は増加しました。"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny["bert"])
    model = transformers.BertModel.from_pretrained(tiny["bert"])
    with torch.no_grad():
        output = model(**tokenizer([text], return_tensors="pt"), output_hidden_states=True)
    hidden = [states[0].mean(dim=0).numpy() for states in output.hidden_states]
    expected = {-1: hidden[2], 0: hidden[0], 1: hidden[1], 2: hidden[2], -2: hidden[1]}
    for layer, vector in expected.items():
        got = open_tiny("bert", layer=layer).encode([text], "query")[0]
        assert np.abs(got - vector).max() < 1e-6
    # the first layer is the first transformer block, not the embeddings
    got = open_tiny("bert", pooling="first_last_avg").encode([text], "query")[0]
    assert np.abs(got - (hidden[1] + hidden[2]) / 2).max() < 1e-6


@pytest.mark.parametrize("name", ALL)
def test_the_last_layer_by_either_name(name: str, open_tiny: Open, sentences: list[str]) -> None:
    last = open_tiny(name).encode(sentences[:4], "query")
    assert np.array_equal(open_tiny(name, layer=2).encode(sentences[:4], "query"), last)
    assert not np.allclose(open_tiny(name, layer=1).encode(sentences[:4], "query"), last)


def test_query_and_document_prompts_are_plain_prefixes(open_tiny: Open) -> None:
    encoder = open_tiny("bert", prompts={"query": "query: ", "document": "passage: "})
    plain = open_tiny("bert")
    query, document = (encoder.encode(["円安"], role)[0] for role in ("query", "document"))
    assert np.abs(query - document).max() > 1e-3
    assert np.array_equal(query, plain.encode(["query: 円安"], "query")[0])
    assert np.array_equal(document, plain.encode(["passage: 円安"], "query")[0])
    assert np.array_equal(encoder.encode(["円安"], "clustering"), plain.encode(["円安"], "query"))


# --- counts, order, blank and repeated texts ------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 100])
def test_n_texts_n_vectors_in_order(n: int, open_tiny: Open, sentences: list[str]) -> None:
    encoder = open_tiny("bert", batch_tokens=64)
    texts = [sentences[(7 * i) % 32] + "ー" * (i % 3) for i in range(n)]
    vectors = encoder.encode(texts, "document")
    assert vectors.shape == (n, 32)
    assert vectors.dtype == np.float32
    assert encoder.counts.texts == n
    for i in range(0, n, 13):
        assert np.abs(vectors[i] - encoder.encode([texts[i]], "document")[0]).max() < 1e-5


def test_repeated_texts_are_encoded_once_and_counted_each(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_tiny("bert")
    seen: list[str] = []
    stream = encoder.stream

    def spy(strings: list[str], missing: Any, role: Role) -> Any:
        seen.extend(strings)
        return stream(strings, missing, role)

    monkeypatch.setattr(encoder, "stream", spy)
    vectors = encoder.encode(["円安", "株価", "円安", "", "円安"], "query")
    assert seen == ["円安", "株価"]
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[0], vectors[4])
    assert encoder.counts.texts == 5
    assert encoder.counts.tokens == 4 * 4  # [CLS] two characters [SEP], four times


@pytest.mark.parametrize("name", ALL)
def test_blank_texts_are_zero_and_counted(name: str, open_tiny: Open) -> None:
    encoder = open_tiny(name, prompts={"query": "query: "}, normalize=True)
    vectors = encoder.encode(["", "　", "\n", "円"], "query")
    assert not vectors[:3].any()
    assert np.linalg.norm(vectors[3]) == pytest.approx(1, abs=1e-6)
    assert encoder.counts.blank == 3
    assert not encoder.encode(["", "　"], "query").any()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_text_that_the_tokenizer_drops_is_zero(pooling: str, fork: Fork, open_tiny: Open) -> None:
    folder = fork("llama")
    dropping = {"type": "Replace", "pattern": {"String": "\u200b"}, "content": ""}
    edit(folder / "tokenizer.json", normalizer=dropping)
    encoder = open_tiny(folder, pooling=pooling, normalize=True)
    assert not encoder.encode(["\u200b"], "query").any()
    vectors = encoder.encode(["\u200b", "円"], "query")
    assert not vectors[0].any()
    assert np.abs(vectors[1] - encoder.encode(["円"], "query")[0]).max() < 1e-6


def test_what_is_not_nfc_is_counted_and_left_alone(open_tiny: Open) -> None:
    composed, decomposed = "ガス", unicodedata.normalize("NFD", "ガス")
    encoder = open_tiny("llama")
    vectors = encoder.encode([composed, decomposed, "円", decomposed], "query")
    assert encoder.counts.not_nfc == 2
    assert not np.allclose(vectors[0], vectors[1])


def test_a_tokenizer_without_a_limit_and_more_tokens_than_positions(open_tiny: Open) -> None:
    encoder = open_tiny("xlm_roberta")
    tokenizer = encoder._tokenizer  # type: ignore[attr-defined]
    assert tokenizer.model_max_length > 10**6
    assert encoder.spec.max_length == 512
    text = "円" * 512
    assert len(tokenizer(text)["input_ids"]) == 515  # <s>, "▁", 512 characters, </s>
    vectors = encoder.encode([text, "円" * 509, "円" * 510, "円" * 600], "query")
    assert encoder.counts.truncated == 3
    assert encoder.counts.tokens == 4 * 512
    assert np.array_equal(vectors[0], vectors[3])


@pytest.mark.parametrize(("asked", "expected"), [(None, 512), (100, 100), (9999, 512)])
def test_the_least_limit_holds(asked: int | None, expected: int, open_tiny: Open) -> None:
    assert open_tiny("gpt2", max_length=asked).spec.max_length == expected


def test_a_declared_limit_holds_until_the_user_says_otherwise(
    fork: Fork, declare: Declare, open_tiny: Open
) -> None:
    folder = declare(fork("bert"), {"pooling_mode": "mean"})
    assert open_tiny(folder).spec.max_length == 128
    assert open_tiny(folder, max_length=300).spec.max_length == 300


# --- numbers -------------------------------------------------------------------------------------


def test_cut_then_scaled(open_tiny: Open) -> None:
    raw = np.array([[0.6, 0.0, 0.8]], dtype=np.float32)
    assert finish(raw, 2, normalize=True).tolist() == [[1.0, 0.0]]
    full = open_tiny("bert").encode(["円安"], "query")[0].astype(np.float64)
    got = open_tiny("bert", truncate_dim=5, normalize=True).encode(["円安"], "query")[0]
    assert np.abs(got - full[:5] / np.linalg.norm(full[:5])).max() < 1e-6


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_lengths_of_any_size_become_one(size: float) -> None:
    vectors = np.array([[3 * size, 4 * size], [0, 0]], dtype=np.float32)
    assert finish(vectors, 2, normalize=True) == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_half_precision_leaves_as_finite_float32(
    name: str, dtype: str, open_tiny: Open, sentences: list[str]
) -> None:
    encoder = open_tiny(name, dtype=dtype)
    vectors = encoder.encode(sentences, "query")
    assert encoder.spec.dtype == dtype
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    exact = open_tiny(name).encode(sentences, "query")
    assert 0.99 < cosines(vectors, exact).min() < 1 - 1e-8


@pytest.mark.parametrize("normalize", [False, True])
def test_nan_weights_stop_with_model_and_row(normalize: bool, fork: Fork, open_tiny: Open) -> None:
    folder = fork("bert")
    weights = load_file(folder / "model.safetensors")
    # the word embedding of the first character of one text only
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    weights["embeddings.word_embeddings.weight"][tokenizer.convert_tokens_to_ids("株")] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    encoder = open_tiny(folder, normalize=normalize)
    with pytest.raises(ModelError, match=r"bert gave NaN or infinity for row 2$") as caught:
        encoder.encode(["", "円安", "株価", "円安"], "query")
    assert "\n" not in str(caught.value)
    assert encoder.encode(["円安"], "query").any()


# --- folders that are not whole ------------------------------------------------------------------


def _remove(pattern: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        found = list(folder.glob(pattern))
        assert found
        for path in found:
            path.unlink()

    return spoil


def _reweigh(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def _halve(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def _own_code(folder: Path) -> None:
    auto = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    edit(folder / "config.json", model_type="own", auto_map=auto)
    (folder / "own.py").write_text("raise SystemExit('it was run')", encoding="utf-8")


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a tensor missing": (_reweigh(lambda w: w.pop(NAN_TENSOR)), NAN_TENSOR),
    "a tensor misshapen": (
        _reweigh(lambda w: w.update({NAN_TENSOR: w[NAN_TENSOR][:3].clone()})),
        NAN_TENSOR,
    ),
    "half downloaded": (_halve, "model.safetensors is not whole"),
    "empty weights": (lambda f: (f / "model.safetensors").write_bytes(b""), "is not whole"),
    "bin only": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "only pytorch_model.bin, which can run code",
    ),
    "no weights": (_remove("model.safetensors"), "no weights"),
    "no config": (_remove("config.json"), "no config.json"),
    "no tokenizer": (_remove("tokenizer*"), "no tokenizer files"),
    "torn config": (lambda f: (f / "config.json").write_text("{"), "not a valid JSON"),
    "torn tokenizer": (lambda f: (f / "tokenizer.json").write_text("{"), "tokenizer.json is not"),
    "torn modules": (lambda f: (f / "modules.json").write_text("["), "modules.json is not JSON"),
    "unknown architecture": (
        lambda f: edit(f / "config.json", model_type="nonsense"),
        "model type 'nonsense' is not known",
    ),
    "its own code": (_own_code, "--trust-remote-code"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_spoiled_folders_are_told_in_one_line(case: str, fork: Fork, open_tiny: Open) -> None:
    spoil, said = SPOILED[case]
    folder = fork("bert")
    spoil(folder)
    with pytest.raises(JfintebError) as caught:
        open_tiny(folder).load()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pooler_may_be_missing(fork: Fork, open_tiny: Open) -> None:
    folder = fork("bert")
    before = open_tiny(folder).encode(["円安"], "query")
    _reweigh(lambda w: [w.pop(key) for key in list(w) if "pooler" in key])(folder)
    assert np.array_equal(open_tiny(folder).encode(["円安"], "query"), before)


def test_weights_of_a_t5_encoder_alone(
    tiny: dict[str, Path], fork: Fork, open_tiny: Open, sentences: list[str]
) -> None:
    folder = fork("t5")
    model = transformers.T5EncoderModel.from_pretrained(tiny["t5"])
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder)
    whole = open_tiny("t5").encode(sentences, "query")
    assert np.abs(open_tiny(folder).encode(sentences, "query") - whole).max() < 1e-6
    _reweigh(lambda w: w.pop("encoder.block.1.layer.0.SelfAttention.q.weight"))(folder)
    with pytest.raises(ModelError, match=r"SelfAttention\.q"):
        open_tiny(folder).load()


@pytest.mark.parametrize("name", ["llama", "modernbert", "t5"])
def test_a_tokenizer_that_gives_more_inputs_than_the_model_takes(
    name: str, fork: Fork, open_tiny: Open
) -> None:
    folder = fork(name)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    edit(folder / "tokenizer_config.json", model_input_names=inputs)
    same = open_tiny(name).encode(["円安"], "query")
    assert np.array_equal(open_tiny(folder).encode(["円安"], "query"), same)


def test_the_revision_follows_the_files(fork: Fork, open_tiny: Open) -> None:
    folder = fork("bert")
    before = open_tiny(folder).spec
    (folder / "README.md").write_text("prose", encoding="utf-8")
    assert open_tiny(folder).spec.revision == before.revision
    _reweigh(lambda w: w[NAN_TENSOR].add_(1e-3))(folder)
    assert open_tiny(folder).spec.revision != before.revision
    assert before.model == "bert"  # never where the folder lies


def test_a_home_folder_by_its_tilde(
    fork: Fork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork("bert")
    monkeypatch.setenv("HOME", str(tmp_path))
    encoder = open_encoder(EncoderOptions(model="~/bert", device="cpu"))
    assert encoder.encode(["円安"], "query").any()


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pooling": "median"}, "no pooling 'median'"),
        ({"pooling": "cls+median"}, "no pooling 'median'"),
        ({"pooling": "first_last_avg", "layer": 1}, "leave --layer out"),
        ({"dtype": "int8"}, "no dtype 'int8'"),
        ({"device": "abacus"}, "device 'abacus'"),
        ({"device": "meta"}, "device 'meta'"),
        ({"layer": 3}, "layer 3"),
        ({"layer": -4}, "layer -4"),
        ({"max_length": 2}, "max_length 2"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], said: str, tiny: dict[str, Path]) -> None:
    with pytest.raises(UsageError) as caught:
        open_encoder(EncoderOptions(model=str(tiny["bert"]), **({"device": "cpu"} | options)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_role(open_tiny: Open) -> None:
    with pytest.raises(UsageError, match="no role 'passage'"):
        open_tiny("bert").encode(["円安"], "passage")


# --- the hub -------------------------------------------------------------------------------------

_OPEN = """
import sys
from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.loaders.errors import JfintebError
for name in sys.argv[1:]:
    try:
        encoder = open_encoder(EncoderOptions(model=name, device="cpu"))
        print("opened", encoder.spec.revision, encoder.encode(["円"], "query").shape)
    except JfintebError as error:
        print(type(error).__name__, repr(str(error)))
"""


def offline(home: Path, *names: str) -> list[str]:
    settings = {
        "HF_HOME": str(home),
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUTF8": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", _OPEN, *names],
        env=os.environ | settings,
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_without_a_network(tiny: dict[str, Path], tmp_path: Path) -> None:
    """Unknown, cached whole, cached with and without knowing that the other files do not exist."""
    commit = "a" * 40
    for name in ("whole", "known", "partly"):
        cached = tmp_path / "hub" / f"models--tiny--{name}"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs" / "main").write_text(commit, encoding="utf-8")
        shutil.copytree(tiny["bert"], cached / "snapshots" / commit)
        absent = cached / ".no_exist" / commit
        (absent / "1_Pooling").mkdir(parents=True)
        if name == "whole":
            (cached / "snapshots" / commit / ".gitattributes").touch()
        if name == "known":
            st = ("modules", "sentence_bert_config", "config_sentence_transformers")
            for file in (*st, "1_Pooling/config"):
                (absent / f"{file}.json").touch()
    lines = offline(
        tmp_path, "nobody/nothing", "tiny/whole", "tiny/known", "tiny/partly", "a b", "./nowhere"
    )
    assert len(lines) == 6, lines
    unknown, whole, known, partly, invalid, nowhere = lines
    assert unknown.startswith(UnavailableError.__name__)
    assert "nobody/nothing" in unknown
    assert whole == known == f"opened {commit} (1, 32)"
    assert partly.startswith(UnavailableError.__name__)
    assert "modules.json" in partly
    assert invalid.startswith(ModelError.__name__)
    assert nowhere.startswith(ModelError.__name__)
    assert "\\n" not in "".join(lines)
