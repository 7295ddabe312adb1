"""Models of several modules, run by sentence-transformers: against that library, and by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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
from jfinteb.eval.cli import run_main
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UsageError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    library = pytest.importorskip("sentence_transformers", reason="test extra")
    parts = pytest.importorskip("sentence_transformers.models", reason="test extra")

Make = Callable[..., Path]
PROMPTS = {"query": "query: ", "document": "passage: "}


def transformer(tiny: dict[str, Path], name: str = "bert") -> Any:
    return parts.Transformer(str(tiny[name]))


def dense(inputs: int = 32, outputs: int = 16) -> Any:
    torch.manual_seed(3)
    return parts.Dense(inputs, outputs, activation_function=torch.nn.Tanh())


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Save modules as the library does; returns the folder."""

    def made(*modules: Any, **general: Any) -> Path:
        folder = tmp_path / f"model{len(list(tmp_path.iterdir()))}"
        library.SentenceTransformer(modules=list(modules), device="cpu", **general).save(
            str(folder), create_model_card=False
        )
        return folder

    return made


def opened(folder: Path, **options: Any) -> TextEncoder:
    options = {"device": "cpu", "backend": "sentence-transformers"} | options
    return open_encoder(EncoderOptions(model=str(folder), **options))


def theirs(folder: Path, **options: Any) -> Any:
    return library.SentenceTransformer(str(folder), device="cpu", **options)


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


# --- against the library --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken", "weightedmean"])
@pytest.mark.parametrize("scaled", [False, True])
def test_dense_and_normalize_as_the_library(
    mode: str, scaled: bool, tiny: dict[str, Path], make: Make, sentences: list[str]
) -> None:
    pooling = parts.Pooling(32, pooling_mode=mode)
    ends = [parts.Normalize()] if scaled else []
    folder = make(transformer(tiny), pooling, dense(), *ends)
    encoder = opened(folder, prompts=PROMPTS)
    assert encoder.spec.normalize is scaled
    names = f"modules: Transformer, Pooling({mode}), Dense"
    assert encoder.spec.pooling == names + (", Normalize" if scaled else "")
    model = theirs(folder)
    for role, prompt in {**PROMPTS, "classification": ""}.items():
        expected = model.encode(sentences, prompt=prompt, batch_size=5)
        got = encoder.encode(sentences, role)
        assert got.shape == (32, 16)
        assert got.dtype == np.float32
        assert np.abs(got - expected).max() < 1e-6


def test_dense_by_hand(tiny: dict[str, Path], make: Make) -> None:
    layer = dense()
    encoder = opened(make(transformer(tiny), parts.Pooling(32, pooling_mode="mean"), layer))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny["bert"])
    bare = transformers.BertModel.from_pretrained(tiny["bert"])
    text = "当社の売上高は増加しました。"
    with torch.no_grad():
        states = bare(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()
    weight, bias = (p.detach().numpy() for p in (layer.linear.weight, layer.linear.bias))
    expected = np.tanh(weight @ states.mean(axis=0) + bias)
    assert np.abs(encoder.encode([text], "query")[0] - expected).max() < 1e-6


def test_a_prompt_out_of_the_pool_as_the_library(
    tiny: dict[str, Path], make: Make, sentences: list[str]
) -> None:
    pooling = parts.Pooling(32, pooling_mode="mean", include_prompt=False)
    folder = make(transformer(tiny), pooling, dense())
    encoder = opened(folder, prompts=PROMPTS)
    assert encoder.spec.pool_prompt is False
    expected = theirs(folder).encode(sentences, prompt="query: ")
    assert np.abs(encoder.encode(sentences, "query") - expected).max() < 1e-6
    kept = make(transformer(tiny), parts.Pooling(32, pooling_mode="mean"), dense())
    assert np.abs(theirs(kept).encode(sentences, prompt="query: ") - expected).max() > 1e-3


def test_prompts_of_the_model_are_never_added(tiny: dict[str, Path], make: Make) -> None:
    """A default prompt would stand before every text, and so twice before some."""
    modules = (transformer(tiny), parts.Pooling(32, pooling_mode="mean"), dense())
    bare = opened(make(*modules))
    declared = make(*modules, prompts={"query": "query: "}, default_prompt_name="query")
    encoder = opened(declared)
    assert np.array_equal(encoder.encode(["円安"], "query"), bare.encode(["円安"], "query"))
    (warning,) = [note for note in encoder.notes if note.startswith("warning")]
    assert "declares prompts (query='query: ') and is run with none" in warning
    prompted = opened(declared, prompts={"query": "query: "})
    assert not [note for note in prompted.notes if note.startswith("warning")]
    expected = theirs(declared).encode(["円安"], prompt_name="query")
    assert np.abs(prompted.encode(["円安"], "query") - expected).max() < 1e-6


def test_static_embeddings_by_hand(tiny: dict[str, Path], make: Make) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny["bert"])
    table = np.random.default_rng(0).normal(size=(len(tokenizer), 8)).astype(np.float32)
    static = parts.StaticEmbedding(
        tokenizer.backend_tokenizer, embedding_weights=torch.from_numpy(table)
    )
    folder = make(static)
    encoder = opened(folder)
    assert encoder.spec.pooling == "modules: StaticEmbedding"
    assert encoder.spec.max_length is None
    ids = tokenizer("株価は下落", add_special_tokens=False)["input_ids"]
    got = encoder.encode(["株価は下落", "円"], "query")
    assert np.abs(got[0] - table[ids].mean(axis=0)).max() < 1e-6
    assert encoder.counts.tokens == 5 + 1
    with pytest.raises(UsageError, match="no limit of tokens"):
        opened(folder, max_length=5)


# --- routes ---------------------------------------------------------------------------------------


@pytest.fixture
def two_ways(tiny: dict[str, Path], make: Make) -> Path:
    """Queries and documents go through different layers."""
    ways: dict[str, list[Any]] = {}
    for seed, way in enumerate(("query", "document")):
        ways[way] = [parts.Transformer(str(tiny["bert"])), parts.Pooling(32, "mean"), dense()]
        torch.manual_seed(seed)
        torch.nn.init.normal_(ways[way][2].linear.weight)
    return make(parts.Router.for_query_document(ways["query"], ways["document"]))


def test_a_router_goes_by_role(two_ways: Path, sentences: list[str]) -> None:
    encoder = opened(two_ways)
    assert encoder.spec.routes == {"query": "query", "document": "document"}
    inner = "Transformer, Pooling(mean), Dense"
    assert encoder.spec.pooling == f"modules: Router(query: {inner}; document: {inner})"
    model = theirs(two_ways)
    for role in ("query", "document"):
        expected = model.encode(sentences, task=role)
        assert np.abs(encoder.encode(sentences, role) - expected).max() < 1e-6
    query, document = (encoder.encode(sentences, role) for role in ("query", "document"))
    assert np.abs(query - document).max() > 0.1


def test_routes_that_are_asked_for(two_ways: Path) -> None:
    swapped = opened(two_ways, routes={"query": "document", "clustering": "query"})
    encoder = opened(two_ways)
    assert np.array_equal(swapped.encode(["円"], "query"), encoder.encode(["円"], "document"))
    assert np.array_equal(swapped.encode(["円"], "clustering"), encoder.encode(["円"], "query"))
    assert swapped.spec.digest != encoder.spec.digest
    with pytest.raises(UsageError, match="no route 'passage'; it has query, document"):
        opened(two_ways, routes={"document": "passage"})


def test_routes_of_a_model_that_has_none(tiny: dict[str, Path], make: Make) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"))
    with pytest.raises(UsageError, match="no route 'query'; it has none"):
        opened(folder, routes={"query": "query"})


# --- tokens, batches, numbers ---------------------------------------------------------------------


def test_alone_or_in_a_batch_of_32(two_ways: Path, sentences: list[str]) -> None:
    encoder = opened(two_ways)
    batch = encoder.encode(sentences, "query")
    alone = np.vstack([encoder.encode([text], "query") for text in sentences])
    lengths = np.linalg.norm(batch, axis=1) * np.linalg.norm(alone, axis=1)
    assert ((batch * alone).sum(axis=1) / lengths).min() >= 0.9999
    assert np.abs(opened(two_ways, batch_tokens=1).encode(sentences, "query") - alone).max() < 1e-6


def test_more_tokens_than_positions(tiny: dict[str, Path], make: Make) -> None:
    """A tokenizer without a limit; the library would say 514 where 512 have a position."""
    folder = make(transformer(tiny, "xlm_roberta"), parts.Pooling(32, "mean"), dense())
    edit(folder / "tokenizer_config.json", model_max_length=10**30)
    encoder = opened(folder)
    assert encoder.spec.max_length == 512
    texts = ["円" * 512, "円" * 509, "円" * 510, "円" * 600]  # and <s>, "▁", </s>
    vectors = encoder.encode(texts, "query")
    assert (encoder.counts.truncated, encoder.counts.tokens) == (3, 4 * 512)
    assert np.abs(vectors[0] - vectors[3]).max() < 1e-6
    short = opened(folder, max_length=10)
    assert short.spec.max_length == 10
    cut = short.encode(["円" * 600, "円" * 7], "query")
    assert (short.counts.truncated, short.counts.tokens) == (1, 20)
    assert np.abs(cut[0] - cut[1]).max() < 1e-6


def test_blank_repeated_and_cut(tiny: dict[str, Path], make: Make) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense(), parts.Normalize())
    encoder = opened(folder, truncate_dim=4)
    vectors = encoder.encode(["", "　", "円安", "\n", "円安"], "query")
    assert not vectors[[0, 1, 3]].any()
    assert np.array_equal(vectors[2], vectors[4])
    whole = theirs(folder).encode(["円安"])[0].astype(np.float64)
    assert np.abs(vectors[2] - whole[:4] / np.linalg.norm(whole[:4])).max() < 1e-6
    assert encoder.counts.tokens == 2 * 4
    with pytest.raises(UsageError, match="truncate-dim is 17, model0 has 16 dimensions"):
        opened(folder, truncate_dim=17)


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_half_precision_leaves_as_float32(dtype: str, tiny: dict[str, Path], make: Make) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    edit(folder / "config.json", dtype="bfloat16")
    encoder = opened(folder, dtype=dtype)
    vectors = encoder.encode(["円安", "株価は下落した。"], "query")
    assert encoder.spec.dtype == "bfloat16"
    assert vectors.dtype == np.float32
    exact = opened(folder, dtype="float32").encode(["円安", "株価は下落した。"], "query")
    assert 1e-5 < np.abs(vectors - exact).max() < 0.05


def test_nan_stops_with_model_and_row(tiny: dict[str, Path], make: Make) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    weights = load_file(folder / "model.safetensors")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    key = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[key][tokenizer.convert_tokens_to_ids("株")] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="model0 gave NaN or infinity for row 1"):
        opened(folder).encode(["円安", "株価"], "query")


# --- chosen by the model --------------------------------------------------------------------------


def test_chosen_where_pooling_does_not_cover(tiny: dict[str, Path], make: Make) -> None:
    plain = make(transformer(tiny), parts.Pooling(32, "mean"), parts.Normalize())
    assert opened(plain, backend="auto").spec.backend == "transformers"
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    encoder = opened(folder, backend="auto")
    assert encoder.spec.backend == "sentence-transformers"
    assert "run by sentence-transformers: pooling does not cover Dense" in encoder.notes
    asked = opened(folder, backend="auto", pooling="cls")
    assert asked.spec.backend == "transformers"
    assert "modules of the model not run: Dense" in asked.notes
    asked = opened(folder)
    assert not [note for note in asked.notes if "run by" in note]
    with pytest.raises(JfintebError, match="no folder '/nowhere/at/all'"):
        opened(Path("/nowhere/at/all"), backend="auto")


def test_a_folder_without_modules_is_pooled_by_the_mean(tiny: dict[str, Path]) -> None:
    encoder = opened(tiny["bert"])
    assert encoder.spec.pooling == "modules: Transformer, Pooling(mean)"
    expected = opened(tiny["bert"], backend="transformers", pooling="mean").encode(["円"], "query")
    assert np.abs(encoder.encode(["円"], "query") - expected).max() < 1e-6


def test_a_task_by_the_command_line(tiny: dict[str, Path], make: Make, tmp_path: Path) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    arguments = ["--model", str(folder), "--suite", "sample", "--tasks", "ews_horizon,pfmt"]
    out = tmp_path / "results"
    assert run_main([*arguments, "--backend", "auto", "--output", str(out)]) == 0
    (path,) = out.rglob("pfmt.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["spec"]["backend"] == "sentence-transformers"
    assert result["environment"]["sentence-transformers"] == library.__version__
    assert any("Dense" in note for note in result["notes"])


# --- what may go wrong ----------------------------------------------------------------------------


def pickled(folder: Path) -> None:
    state = load_file(folder / "2_Dense" / "model.safetensors")
    torch.save(state, folder / "2_Dense" / "pytorch_model.bin")
    (folder / "2_Dense" / "model.safetensors").unlink()


def without(pattern: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        found = list(folder.glob(pattern))
        assert found
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return spoil


def own_module(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules[2]["type"] = "own.Dense"
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "own.py").write_text("raise SystemExit('it was run')", encoding="utf-8")


def one_tensor_less(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop(next(name for name in weights if "layer.1.output.dense.weight" in name))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled dense": (pickled, "only pytorch_model.bin, which can run code"),
    "no dense": (without("2_Dense"), "no folder 2_Dense for its Dense"),
    "dense without weights": (without("2_Dense/*.safetensors"), "cannot load"),
    "no tokenizer": (without("tokenizer*"), "no tokenizer files"),
    "no config": (without("config.json"), "no config.json"),
    "no weights": (without("model.safetensors"), "no weights"),
    "its own module": (own_module, "brings its own code (own.Dense)"),
    "its own activation": (
        lambda f: edit(f / "2_Dense" / "config.json", activation_function="own.run"),
        "brings its own code (own.run)",
    ),
    "a tensor missing": (one_tensor_less, "layer.1.output.dense.weight; they would be random"),
    "half a tensor file": (
        lambda f: (f / "2_Dense" / "model.safetensors").write_bytes(b"\x08"),
        "cannot load",
    ),
    "torn modules": (lambda f: (f / "modules.json").write_text("["), "is not JSON"),
    "odd modules": (lambda f: (f / "modules.json").write_text("[1]"), "a module is 1"),
    "not one vector a text": (
        lambda f: edit(f / "config_sentence_transformers.json", model_type="SparseEncoder"),
        "is a SparseEncoder",
    ),
}


@pytest.mark.parametrize("backend", ["sentence-transformers", "auto"])
@pytest.mark.parametrize("case", SPOILED)
def test_spoiled_folders_are_told_in_one_line(
    case: str, backend: str, tiny: dict[str, Path], make: Make
) -> None:
    spoil, said = SPOILED[case]
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    spoil(folder)
    with pytest.raises(JfintebError) as caught:
        opened(folder, backend=backend).load()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pooling": "mean"}, "has no pooling"),
        ({"layer": 1}, "has no layer"),
        ({"special_tokens": False}, "has no special-tokens"),
        ({"pool_prompt": True}, "has no pool-prompt"),
        ({"settings": {"x": 1}}, "has no settings"),
        ({"normalize": False}, "leave --no-normalize out"),
        ({"dtype": "int8"}, "no dtype 'int8'"),
        ({"device": "abacus"}, "device 'abacus'"),
        ({"max_length": 1}, "leaves no room"),
    ],
)
def test_options_that_do_not_fit(
    options: dict[str, Any], said: str, tiny: dict[str, Path], make: Make
) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), parts.Normalize())
    with pytest.raises(UsageError) as caught:
        opened(folder, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


_BLOCKED = """
import importlib.machinery as machinery, sys
find = machinery.PathFinder.find_spec
def blocked(name, path=None, target=None):
    return None if name.split(".")[0] == "sentence_transformers" else find(name, path, target)
machinery.PathFinder.find_spec = staticmethod(blocked)
from jfinteb.eval.cli import run_main
sys.exit(run_main(sys.argv[1:]))
"""


def test_without_the_library(tiny: dict[str, Path], make: Make, tmp_path: Path) -> None:
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    arguments = ["--model", str(folder), "--backend", "auto", "--suite", "sample"]
    command = [sys.executable, "-c", _BLOCKED, *arguments, "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "needs sentence-transformers (Dense), which is not installed" in line
    assert "pip install 'jfinteb[st]'" in line and "--pooling" in line
    assert not (tmp_path / "out").exists()


# --- the hub, and a real model --------------------------------------------------------------------

_OPEN = """
import sys
from jfinteb.eval.backends import EncoderOptions, open_encoder
encoder = open_encoder(EncoderOptions(model=sys.argv[1], device="cpu", backend="auto"))
print(encoder.spec.model, encoder.spec.revision, encoder.encode(["円"], "query").shape)
"""


def test_a_model_in_the_hubs_cache(tiny: dict[str, Path], make: Make, tmp_path: Path) -> None:
    commit = "a" * 40
    cached = tmp_path / "home" / "hub" / "models--tiny--dense"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit, encoding="utf-8")
    folder = make(transformer(tiny), parts.Pooling(32, "mean"), dense())
    shutil.copytree(folder, cached / "snapshots" / commit)
    (cached / "snapshots" / commit / ".gitattributes").touch()
    settings = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
    run = subprocess.run(
        [sys.executable, "-c", _OPEN, "tiny/dense"],
        env=os.environ | settings,
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"tiny/dense {commit} (1, 16)"]


@pytest.mark.skipif("JFINTEB_MODEL" not in os.environ, reason="JFINTEB_MODEL names no real model")
def test_both_backends_agree_on_a_real_model(sentences: list[str]) -> None:
    folder = Path(os.environ["JFINTEB_MODEL"])
    ours, library_ = (
        opened(folder, backend=backend, prompts=PROMPTS)
        for backend in ("transformers", "sentence-transformers")
    )
    for role in PROMPTS:
        a, b = (e.encode(sentences, role).astype(np.float64) for e in (ours, library_))
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        assert ((a * b).sum(axis=1) / lengths).min() >= 0.99999
    assert ours.counts == library_.counts
