"""What of a model's files counts, is pinned, is used, and is told in one line where it is wrong."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from jfinteb.eval.backends import EncoderOptions, TextEncoder, base, open_encoder
from jfinteb.eval.backends.folder import files_of, fingerprint
from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.backends.own_code import code_elsewhere, package_versions
from jfinteb.eval.backends.snapshot import check_snapshot
from jfinteb.eval.cli import main
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.runner import Runner
from jfinteb.eval.settled import recall, remember
from jfinteb.eval.variants import open_variants
from jfinteb.loaders.data import open_origin
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import get_task

from .conftest import one_line
from .results import read_results

BACKENDS = ["transformers", "sentence-transformers"]
COMMIT = "a" * 40
Change = Callable[[Path], object]


@pytest.fixture
def model(tiny: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny["bert"], tmp_path / "model"))


def options_of(folder: Path, **options: Any) -> EncoderOptions:
    if options.get("backend") == "sentence-transformers":
        pytest.importorskip("sentence_transformers", reason="test extra")
    return EncoderOptions(model=str(folder), device="cpu", **options)


def opened(folder: Path, **options: Any) -> TextEncoder:
    return open_encoder(options_of(folder, **options))


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def add(name: str, content: str = "x") -> Change:
    def written(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")

    return written


# --- the declared truncate_dim --------------------------------------------------------------------


@pytest.fixture
def declaring(model: Path, declare: Callable[..., Path]) -> Path:
    return declare(model, {"pooling_mode": "mean", "embedding_dimension": 32}, truncate_dim=8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_declared_truncate_dim_is_used_and_said(backend: str, declaring: Path) -> None:
    encoder = opened(declaring, backend=backend)
    vectors = encoder.encode(["円安", "株価"], "query")
    whole = opened(declaring, backend=backend, truncate_dim=0)
    assert encoder.spec.truncate_dim == 8
    assert (whole.spec.truncate_dim, whole.encode(["円"], "query").shape) == (None, (1, 32))
    assert np.allclose(vectors, whole.encode(["円安", "株価"], "query")[:, :8], atol=1e-6)
    assert encoder.spec.vector_digest == whole.spec.vector_digest
    assert any("first 8 dimensions kept" in note for note in encoder.notes)
    assert not any("truncate_dim" in note for note in whole.notes)
    assert opened(declaring, backend=backend, truncate_dim=4).spec.truncate_dim == 4


def test_a_declared_truncate_dim_as_the_library_cuts(declaring: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="test extra")
    expected = library.SentenceTransformer(str(declaring), device="cpu").encode(["円安"])
    assert expected.shape == (1, 8)
    for backend in BACKENDS:
        found = opened(declaring, backend=backend).encode(["円安"], "query")
        assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("value", [0, -1, "8", 2.5, True])
def test_an_odd_truncate_dim(value: object, declaring: Path) -> None:
    edit(declaring / "config_sentence_transformers.json", truncate_dim=value)
    with pytest.raises(ModelError, match=r"truncate_dim is .*, expected a whole number"):
        opened(declaring)


def test_dimensions_by_the_command_line(declaring: Path, tmp_path: Path) -> None:
    run = ["run", "--model", str(declaring), "--suite", "sample", "--tasks", "pfmt"]

    def found(name: str, *more: str) -> list[Any]:
        assert main([*run, "--output", str(tmp_path / name), *more]) == 0
        results = read_results(tmp_path / name)
        return sorted(result.protocol["dimensions"] for result in results)

    assert found("declared") == [8]
    assert found("all", "--truncate-dim", "all") == [32]
    assert found("one", "--truncate-dim", "16") == [16]
    assert found("several", "--truncate-dim", "all,4") == [4, 32]
    assert found("rounded", "--precision", "float32,int8") == [8, 8]


@pytest.mark.parametrize("value", ["0", "all,0", "-3"])
def test_no_dimensions(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "--model", "lexical", f"--truncate-dim={value}"])
    assert caught.value.code == 2
    assert "expected above 0" in capsys.readouterr().err


def test_all_is_none_for_other_backends() -> None:
    (encoder,) = open_variants(
        EncoderOptions(model="lexical", backend="auto", truncate_dim=0), ("auto",), (0,), ("int8",)
    )
    assert encoder.spec.truncate_dim is None


# --- versions of what tokenizes -------------------------------------------------------------------


def japanese(folder: Path, dictionary: str | None = "ipadic", words: str = "mecab") -> Path:
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"円安株価営業利益"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    kinds: dict[str, Any] = {"word_tokenizer_type": words, "subword_tokenizer_type": "character"}
    if dictionary is not None:
        kinds["mecab_kwargs"] = {"mecab_dic": dictionary}
    edit(folder / "tokenizer_config.json", tokenizer_class="BertJapaneseTokenizer", **kinds)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
    )
    torch.manual_seed(1)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("backend", BACKENDS)
def test_versions_of_what_cuts_texts(backend: str, model: Path, tmp_path: Path) -> None:
    for package in ("fugashi", "ipadic", "unidic_lite"):
        pytest.importorskip(package, reason="extra japanese")
    fast = opened(model, backend=backend).environment
    assert fast["tokenizers"] == metadata.version("tokenizers")
    assert not fast.keys() & {"fugashi", "ipadic", "unidic-lite", "sentencepiece"}
    one = opened(japanese(tmp_path / "one", "ipadic"), backend=backend).environment
    two = opened(japanese(tmp_path / "two", "unidic_lite"), backend=backend).environment
    assert one["fugashi"] == two["fugashi"] == metadata.version("fugashi")
    assert (one["ipadic"], one.get("unidic-lite")) == (metadata.version("ipadic"), None)
    assert (two["unidic-lite"], two.get("ipadic")) == (metadata.version("unidic-lite"), None)
    assert not one.keys() & {"tokenizers", "sentencepiece"}


def test_a_dictionary_of_ones_own_is_told_by_its_hash(tmp_path: Path) -> None:
    ipadic = pytest.importorskip("ipadic", reason="extra japanese")
    pytest.importorskip("fugashi", reason="extra japanese")
    own = Path(shutil.copytree(ipadic.DICDIR, tmp_path / "dic"))
    folder = japanese(tmp_path / "model")
    option = f'-d "{own}" -r "{own / "mecabrc"}"'
    edit(folder / "tokenizer_config.json", mecab_kwargs={"mecab_dic": None, "mecab_option": option})
    encoder = opened(folder)
    expected = hashlib.sha256((own / "sys.dic").read_bytes()).hexdigest()[:16]
    assert encoder.environment["mecab dictionary sys.dic"] == expected
    remember(tmp_path / "kept", options_of(folder), encoder)
    assert recall(tmp_path / "kept", options_of(folder)) is None  # nobody watches that file


def test_a_sentencepiece_inside_a_tokenizer_counts() -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="extra japanese")
    from jfinteb.eval.backends.versions import tokenizer_versions

    class Slow:
        def __init__(self) -> None:
            self.sp_model = sentencepiece.SentencePieceProcessor()

    assert tokenizer_versions(Slow()) == {"sentencepiece": metadata.version("sentencepiece")}


def test_mecab_dic_without_mecab(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fugashi", reason="extra japanese")
    basic = japanese(tmp_path / "basic", None, "basic")
    for folder in (model, basic):
        with pytest.raises(UsageError, match="does not use MeCab; leave the setting out") as caught:
            opened(folder, settings={"mecab_dic": "ipadic"})
        assert "\n" not in str(caught.value)
    words = japanese(tmp_path / "words", None)
    assert opened(words, settings={"mecab_dic": "ipadic"}).environment["ipadic"]


# --- what counts ----------------------------------------------------------------------------------

RESULT = "local__model/0123456789ab"
HARMLESS = [
    *("README.md", "readme", "LICENSE", "docs/usage.md", "docs/curve.png", ".gitattributes"),
    *(".git/HEAD", ".git/objects/ab/cdef", "2_Dense/.git/HEAD", "__pycache__/own.cpython-311.pyc"),
    *("onnx/model.onnx", "openvino/openvino_model.bin"),
    *(f"results/{RESULT}/pfmt.json", f"results/{RESULT}/pfmt.predictions.jsonl"),
    *(f"{RESULT}/summary.json", f"sample/{RESULT}/.pfmt.json.ab12cd", "results/report.html"),
    *("kept/local__model-0123abcd.sqlite", "kept/local__model-0123abcd.sqlite-wal"),
    *(f"kept/settled/{'0' * 32}.json", f"kept/exports/{'0' * 32}/model.bin"),
]
COUNTED = [
    *("new.dat", "modules.json", "1_Pooling/config.json", "own.py", "sub/own.py", "merges.txt"),
    *("results/other.json", "x__y/config.json", "kept/my.sqlite", "settled/x.json"),
    *("vocab.txt", ".hidden", f"x{RESULT}/model.safetensors"),
]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_no_loader_reads_changes_nothing(name: str, model: Path, tmp_path: Path) -> None:
    options, before = options_of(model), opened(model)
    remember(tmp_path / "kept", options, before)
    add(name)(model)
    assert opened(model).spec == before.spec
    assert recall(tmp_path / "kept", options) is not None


@pytest.mark.parametrize("name", COUNTED)
def test_whatever_else_counts(name: str, model: Path, tmp_path: Path) -> None:
    before = fingerprint(model, "m")
    add(name, "[]")(model)
    assert fingerprint(model, "m") != before


def test_a_module_in_a_folder_for_other_libraries_counts(model: Path) -> None:
    add("onnx/config.json")(model)
    before = fingerprint(model, "m")
    add("modules.json", '[{"path": "onnx", "type": "sentence_transformers.models.Dense"}]')(model)
    assert "onnx/config.json" in dict(files_of(model))
    assert fingerprint(model, "m") != before


def test_results_within_the_model_folder_hold(model: Path, capsys: Any) -> None:
    run = ["run", "--model", str(model), "--suite", "sample", "--tasks", "pfmt"]
    run += ["--output", str(model / "results"), "--cache", str(model / "kept")]
    assert main(run) == 0
    capsys.readouterr()
    assert main(run) == 0
    assert "(kept)" in capsys.readouterr().err
    assert len(read_results(model / "results")) == 1


def test_links_are_followed_under_each_of_their_names(model: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    add("weights")(beside)
    for name in ("2_Dense", "3_Dense"):
        (model / name).symlink_to(beside)
    (model / "loop").symlink_to(model)
    (model / "real.txt").symlink_to(beside / "weights")
    names = set(dict(files_of(model)))
    assert {"2_Dense/weights", "3_Dense/weights", "real.txt"} <= names
    assert not any(name.startswith("loop/") for name in names)
    before = fingerprint(model, "m")
    (beside / "weights").write_text("other")
    assert fingerprint(model, "m") != before


# --- files that lie elsewhere ---------------------------------------------------------------------


def _adapter(folder: Path) -> None:
    edit(folder / "adapter_config.json", base_model_name_or_path="org/base", peft_type="LORA")


def _adapter_alone(folder: Path) -> None:
    _adapter(folder)
    (folder / "config.json").unlink()


def _shard(name: str) -> Change:
    return lambda f: edit(f / "model.safetensors.index.json", weight_map={"a": name})


def _modules(path: str) -> Change:
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", path)]
    entries = [{"type": f"sentence_transformers.models.{k}", "path": p} for k, p in kinds]
    return add("modules.json", json.dumps(entries))


ELSEWHERE: dict[str, tuple[Change, str]] = {
    "adapter": (_adapter, "weights kept elsewhere (org/base); merge them"),
    "adapter without a config": (_adapter_alone, "merge them with merge_and_unload()"),
    "module above": (_modules("../2_Dense"), "a module's path is '../2_Dense'"),
    "module at a root": (_modules("/2_Dense"), "a module's path is '/2_Dense'"),
    "shard above": (_shard("../model.safetensors"), "which is outside the folder"),
    "shard missing": (_shard("model-2.safetensors"), "which is missing"),
}


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("case", ELSEWHERE)
def test_files_elsewhere_are_refused(case: str, backend: str, model: Path) -> None:
    spoil, said = ELSEWHERE[case]
    spoil(model)
    assert said in one_line(ModelError, lambda: opened(model, backend=backend))


def test_a_tokenizer_elsewhere_is_refused(declaring: Path) -> None:
    edit(declaring / "sentence_bert_config.json", tokenizer_name_or_path="org/other")
    with pytest.raises(ModelError, match="takes the tokenizer from 'org/other'"):
        opened(declaring, backend="sentence-transformers")


def test_code_of_another_repository_is_named_by_its_commit(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "hub" / "models--org--code"
    for commit in ("b" * 40, "c" * 40):
        add(f"snapshots/{commit}/modeling.py")(repository)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    edit(model / "config.json", auto_map={"AutoModel": "org/code--modeling.Model"})
    edit(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["org/not--tok.Tok", None]})
    for commit in ("b" * 40, "c" * 40):
        add("refs/main", commit)(repository)
        assert code_elsewhere(ModelFiles(str(model), None)) == {"code of org/code": commit}
    edit(model / "config.json", auto_map={"AutoModel": f"{tmp_path}--modeling.Model"})
    with pytest.raises(ModelError, match=r"takes its code from another folder .*copy the \.py"):
        code_elsewhere(ModelFiles(str(model), None))


# --- a folder that changes while it is opened -----------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "new.json", "tokenizer.json"])
def test_a_folder_that_changes_before_its_weights_are_read(
    name: str, backend: str, model: Path
) -> None:
    encoder = opened(model, backend=backend)
    path = model / name
    path.write_bytes(path.read_bytes() if path.exists() else b"{}")  # the same, yet written
    with pytest.raises(ModelError, match=f"{name} was changed while") as caught:
        encoder.encode(["円安"], "query")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="was changed while"):
        encoder.load()  # nor the second time


def test_what_changed_meanwhile_is_not_remembered(model: Path, tmp_path: Path) -> None:
    options = options_of(model)
    encoder = opened(model)
    edit(model / "config.json", hidden_act="relu")
    remember(tmp_path / "kept", options, encoder)
    assert recall(tmp_path / "kept", options) is None


def test_notes_may_be_taken_meanwhile(model: Path) -> None:
    encoder = opened(model)
    add("README.md")(model)
    assert encoder.encode(["円安"], "query").any()


# --- messages -------------------------------------------------------------------------------------


def _half(name: str) -> Change:
    def halved(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return halved


def _config(**changes: Any) -> Change:
    return lambda folder: edit(folder / "config.json", **changes)


WRONG: dict[str, tuple[Change, str]] = {
    "half a tokenizer": (_half("tokenizer.json"), "tokenizer.json is not whole"),
    "an empty tokenizer": (add("tokenizer.json", ""), "tokenizer.json is not whole"),
    "a tokenizer of another kind": (add("tokenizer.json", "[]"), "tokenizer.json holds a list"),
    "a tokenizer without anything": (add("tokenizer.json", "{}"), "tokenizer.json is not one that"),
    "half a tokenizer_config": (_half("tokenizer_config.json"), "tokenizer_config.json is not"),
    "half a config": (_half("config.json"), "config.json is not whole"),
    "a config of another kind": (add("config.json", "[]"), "config.json holds a list"),
    "float128": (_config(dtype="float128"), "config.json: dtype is 'float128', expected one of"),
    "nonsense": (_config(dtype="wibble"), "dtype is 'wibble', expected one of float32"),
    "a number": (_config(dtype=7), "dtype is 7, expected one of"),
    "whole numbers": (_config(dtype="int8"), "dtype is 'int8', expected one of"),
    "a class of torch": (_config(dtype="Tensor"), "dtype is 'Tensor', expected one of"),
    "model_type": (_config(model_type="wibble"), "model type 'wibble' is not known to transf"),
    "a list of types": (_config(model_type=["bert"]), "model type ['bert'] is not known to"),
    "no model_type": (_config(model_type=None), "config.json has no model_type"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_wrong_are_named(case: str, backend: str, model: Path) -> None:
    spoil, said = WRONG[case]
    spoil(model)
    message = one_line(ModelError, lambda: opened(model, backend=backend))
    assert said in message and "; " in message  # what to do stands behind
    assert len(message) < 400


def test_a_long_message_ends_with_a_whole_word() -> None:
    from jfinteb.eval.backends.faults import first_line

    words = [f"word{n}" for n in range(100)]
    told = first_line(ValueError(" ".join(words))).removeprefix("ValueError: ")
    assert told.endswith(" …")
    assert set(told.split()[:-1]) <= set(words)


# --- the hub's cache ------------------------------------------------------------------------------


@pytest.fixture
def snapshot(tiny: dict[str, Path], tmp_path: Path) -> Path:
    """As the hub's library lays it out: links to blobs named by SHA-256, or by git's SHA-1."""
    repository = tmp_path / "hub" / "models--tiny--bert"
    folder = repository / "snapshots" / COMMIT
    for place in (folder, repository / "blobs"):
        place.mkdir(parents=True)
    for path in tiny["bert"].iterdir():
        content = path.read_bytes()
        name = hashlib.sha256(content).hexdigest()
        if path.suffix == ".json":
            name = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        (repository / "blobs" / name).write_bytes(content)
        (folder / path.name).symlink_to(Path("..") / ".." / "blobs" / name)
    return folder


def _replaced(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


EDITS: dict[str, Change] = {
    "config": lambda f: edit(f / "config.json", hidden_act="relu"),
    "weights": lambda f: (f / "model.safetensors").open("r+b").write(b"\x01"),
    "a file in place of a link": lambda f: _replaced(f / "config.json"),
    "a file more": add("modules.json", "[]"),
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("case", EDITS)
def test_an_edited_snapshot_is_refused(
    case: str, kept: bool, snapshot: Path, tmp_path: Path
) -> None:
    memory = tmp_path / "kept" if kept else None
    check_snapshot(snapshot, "tiny/bert", memory)
    add("README.md")(snapshot)
    check_snapshot(snapshot, "tiny/bert", memory)
    EDITS[case](snapshot)
    with pytest.raises(ModelError, match=f"is not what commit {COMMIT} holds; run `hf") as caught:
        check_snapshot(snapshot, "tiny/bert", memory)
    assert "\n" not in str(caught.value)


def test_a_snapshot_is_hashed_once(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    from jfinteb.eval.backends import snapshot as module

    sound = module._is_sound
    monkeypatch.setattr(module, "_is_sound", lambda p: hashed.append(p) or sound(p))  # type: ignore[func-returns-value]
    for _ in range(2):
        check_snapshot(snapshot, "tiny/bert", tmp_path / "kept")
    assert len(hashed) == len(list(snapshot.iterdir()))


def test_loading_compares_with_the_commit(
    snapshot: Path, python: Callable[..., Any], tmp_path: Path
) -> None:
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(COMMIT)
    absent = snapshot.parents[1] / ".no_exist" / COMMIT
    names = ("modules", "sentence_bert_config", "config_sentence_transformers", "1_Pooling/config")
    for name in names:
        add(f"{name}.json", "")(absent)
    program = (
        "from jfinteb.eval.backends import EncoderOptions, open_encoder\n"
        "from jfinteb.eval.encoder import ModelError\n"
        "encoder = open_encoder(EncoderOptions(model='tiny/bert', device='cpu'))\n"
        "try:\n    encoder.load()\nexcept ModelError as error:\n    print(error)\n"
        "else:\n    print('sound')"
    )
    home = {"HF_HUB_CACHE": str(snapshot.parents[2]), "JFINTEB_CACHE": os.environ["JFINTEB_CACHE"]}
    sound = python(program, cwd=tmp_path, **home)
    assert sound.stdout == "sound\n", sound.stderr
    edit(snapshot / "config.json", initializer_range=0.5)
    edited = python(program, cwd=tmp_path, **home)
    assert "config.json in the hub's cache is not what commit" in edited.stdout, edited.stderr


def test_errors_of_reading_are_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("jfinteb.eval.backends.folder.sha256_of", denied)
    with pytest.raises(ModelError, match=r"cannot read config\.json \(Permission denied\); allow"):
        opened(model)


# --- what breaks a promise ------------------------------------------------------------------------


@pytest.mark.parametrize("joined", ["cls+mean", "cls"])
def test_a_declared_truncate_dim_is_for_the_declared_pooling(joined: str, declaring: Path) -> None:
    """The first 8 of joined vectors would be of their first mode alone."""
    encoder = opened(declaring, pooling=joined)
    assert encoder.spec.truncate_dim is None
    assert "the model's truncate_dim 8 is not for these vectors, which are whole" in encoder.notes


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_declared_truncate_dim_above_the_models_cuts_nothing(
    backend: str, declaring: Path
) -> None:
    edit(declaring / "config_sentence_transformers.json", truncate_dim=64)
    encoder = opened(declaring, backend=backend)
    assert encoder.spec.truncate_dim is None
    assert encoder.encode(["円安"], "query").shape == (1, 32)


def test_more_dimensions_than_one_of_several_poolings_has(model: Path) -> None:
    options = options_of(model, truncate_dim=48)
    with pytest.raises(UsageError, match=r"truncate-dim is 48, .* has 32 dimensions"):
        open_variants(options, ("cls", "mean"), (48,), ("float32",), open_encoder)


def test_code_on_the_path_is_told_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "own_modules_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    inner = package / "scale.py"
    digests = []
    for text in ("FACTOR = 1", "FACTOR = 2", "FACTOR = 1"):
        inner.write_text(text, encoding="utf-8")
        (found,) = package_versions(tmp_path, [f"{package.name}.scale.Scale"]).items()
        assert found[0] == f"code of {package.name}"
        digests.append(found[1])
    assert digests[0] == digests[2] != digests[1]
    installed = package_versions(tmp_path, ["transformers.BertModel"])
    assert installed == {"code of transformers": transformers.__version__}


def test_versions_that_differ_are_runs_that_differ(model: Path, tmp_path: Path) -> None:
    """Neither a kept result nor a row of a table is shared, whatever the spec says."""

    def ran(version: str) -> Path:
        encoder = opened(model)
        encoder._versions = {"ipadic": version}  # type: ignore[attr-defined]
        runner = Runner(encoder, open_origin("sample"), tmp_path / "out")
        plans, _ = runner.plan([get_task("pfmt")])
        assert plans[0].done is None
        list(runner.run(plans))
        assert runner.plan([get_task("pfmt")])[0][0].done is not None
        return runner.folder

    assert ran("1.0.0") != ran("2.0.0")
    one, two = read_results(tmp_path / "out")
    assert one.spec == two.spec and one.identity != two.identity


def test_results_set_aside_in_the_model_folder_change_nothing(model: Path) -> None:
    before = fingerprint(model, "m")
    add("out/sample/local__m/0123456789ab/ews_reason.00aa11bb.json")(model)
    add("out/sample/local__m/0123456789ab/ews_reason.00aa11bb.predictions.jsonl")(model)
    assert fingerprint(model, "m") == before


def test_unidic_is_opened_anew_each_time(model: Path, tmp_path: Path) -> None:
    """Its dictionary is fetched apart from its package, whose version says nothing of it."""
    encoder = opened(model)
    encoder._versions = {"unidic": "1.1.0 (unidic-3.1.0)"}  # type: ignore[attr-defined]
    remember(tmp_path, options_of(model), encoder)
    assert recall(tmp_path, options_of(model)) is None


def test_passing_notes_are_not_remembered(model: Path, tmp_path: Path) -> None:
    encoder = opened(model)
    encoder.notes.append("cache was damaged")
    remember(tmp_path, options_of(model), encoder, ["cache was damaged"])
    known = recall(tmp_path, options_of(model))
    assert known is not None and known.notes == encoder.notes[:-1]


def test_a_length_above_the_models_is_said(model: Path) -> None:
    encoder = opened(model, max_length=1024)
    assert encoder.spec.max_length == 512
    assert "max length 512: 1024 is more than it can take" in encoder.notes
    assert not any("max length" in note for note in opened(model, max_length=12).notes)


def test_a_full_folder_for_temporary_files_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jfinteb.eval.backends.base.os.posix_fallocate", full)
    with pytest.raises(UsageError, match=r"no room for 307 MB of vectors in .*TMPDIR"):
        base._zeros(100_000, 768)
