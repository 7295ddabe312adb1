"""Presets: read strictly, true to the makers' words, and overridden by what a user says."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jfinteb.eval import backends
from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.models import BACKENDS, FACTS, Preset, read_preset
from jfinteb.eval.presets import (
    _named,
    apply,
    describe,
    find_preset,
    get_preset,
    looks_like,
    markdown,
    missing_packages,
    models_table,
    presets,
    suggest,
)
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.task import Role

DOCS = Path(__file__).resolve().parents[2] / "docs" / "models.md"
FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in resources.files("jfinteb.eval.models").iterdir()
    if file.name.endswith(".toml")
}
ROLES = ("query", "document", "classification", "clustering")

# As the cards have them, typed from the cards and not from the files; the end of each matters.
RURI = ("検索クエリ: ", "検索文書: ", "トピック: ", "トピック: ")
E5 = ("query: ", "passage: ", "query: ", "query: ")
QWEN = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    "",
    "Instruct: Classify user passages.\nQuery:",
    "Instruct: Identify categories in user passages.\nQuery:",
)
NONE = ("", "", "", "")
PROMPTS = {
    "cl-nagoya/ruri-v3-30m": RURI,
    "cl-nagoya/ruri-v3-70m": RURI,
    "cl-nagoya/ruri-v3-130m": RURI,
    "cl-nagoya/ruri-v3-310m": RURI,
    "intfloat/multilingual-e5-small": E5,
    "intfloat/multilingual-e5-base": E5,
    "intfloat/multilingual-e5-large": E5,
    "pkshatech/GLuCoSE-base-ja-v2": E5,
    "pkshatech/RoSEtta-base-ja": E5,
    "Qwen/Qwen3-Embedding-0.6B": QWEN,
    "Qwen/Qwen3-Embedding-4B": QWEN,
    "Qwen/Qwen3-Embedding-8B": QWEN,
    "BAAI/bge-m3": NONE,
    "sbintuitions/sarashina-embedding-v1-1b": NONE,
    "openai/text-embedding-3-small": NONE,
    "openai/text-embedding-3-large": NONE,
    "google/embeddinggemma-300m": (
        "task: search result | query: ",
        "title: none | text: ",
        "task: classification | query: ",
        "task: clustering | query: ",
    ),
    "jinaai/jina-embeddings-v3": (
        "Represent the query for retrieving evidence documents: ",
        "Represent the document for retrieval: ",
        "",
        "",
    ),
    "sbintuitions/sarashina-embedding-v2-1b": (
        "task: クエリを与えるので、もっともクエリに意味が似ている一節を探してください。\nquery: ",
        "text: ",
        "task: 与えられたドキュメントを適切なカテゴリに分類してください。\nquery: ",
        "task: 与えられたドキュメントのトピックまたはテーマを特定してください。\nquery: ",
    ),
    "pfnet/plamo-embedding-1b": (
        "次の文章に対して、関連する文章を検索してください: ",
        "",
        "",
        "",
    ),
}
PUBLISHED = {  # the rows of the authors' docs/results
    "OpenAI/text-embedding-3-large",
    "OpenAI/text-embedding-3-small",
    "cl-nagoya/ruri-v3-130m",
    "cl-nagoya/ruri-v3-30m",
    "cl-nagoya/ruri-v3-310m",
    "cl-nagoya/ruri-v3-70m",
    "cl-tohoku/bert-base-japanese",
    "intfloat/multilingual-e5-base",
    "intfloat/multilingual-e5-large",
    "intfloat/multilingual-e5-small",
    "izumi-lab/bert-base-japanese-fin-additional",
    "jinaai/jina-embeddings-v3",
    "pkshatech/GLuCoSE-base-ja-v2",
    "sbintuitions/sarashina-embedding-v1-1b",
}


def named(name: str) -> Preset:
    found = find_preset(name)
    assert found is not None, name
    return found


def own(text: str) -> Preset:
    return read_preset("my.toml", text, own=True)


def refused(text: str) -> str:
    with pytest.raises(DataError) as caught:
        own(text)
    message = str(caught.value)
    assert message.startswith("my.toml: ")
    assert "\n" not in message
    return message


# --- the files


def test_every_file_is_a_preset_of_its_own_name() -> None:
    assert len(presets()) == len(FILES) >= 20
    assert {f"{preset.short}.toml" for preset in presets()} == set(FILES)
    assert len({preset.id.lower() for preset in presets()}) == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_a_pooling_that_exists(name: str) -> None:
    assert read_preset(name, FILES[name], own=True) in presets()


@pytest.mark.parametrize("name", FILES)
def test_every_fact_has_a_source_and_a_date(name: str) -> None:
    preset = read_preset(name, FILES[name], own=False)
    stated = [f for f in FACTS if re.search(rf"^(\[{f}\]|{f} =)", FILES[name], flags=re.MULTILINE)]
    assert set(preset.sources) == set(stated)
    assert all(a.startswith("https://") for found in preset.sources.values() for a in found)
    assert preset.checked is not None
    assert preset.checked >= date(2026, 11, 30)
    for fact in preset.sources:
        block = FILES[name].partition("[sources]")[2]
        lines = re.sub(rf"^{fact} = (\[[^]]*\]|.*)\n", "", block, count=1, flags=re.MULTILINE)
        without = FILES[name].replace(block, lines)
        with pytest.raises(DataError, match=f"{fact}: found no source"):
            read_preset(name, without, own=False)


def test_a_source_without_its_fact_is_refused() -> None:
    text = FILES["ruri-v3-30m.toml"].replace("max_length = 8192\n", "", 1)
    with pytest.raises(DataError, match="max_length: found a source and no fact"):
        read_preset("x.toml", text, own=False)


def test_a_shipped_preset_says_when_why_and_every_role() -> None:
    text = FILES["ruri-v3-30m.toml"]
    for line, expected in (
        ("checked =", "checked: missing"),
        ("trained_why =", "trained_why: missing"),
        ("clustering =", "prompts: no clustering"),
    ):
        without = re.sub(rf"^{line}.*\n", "", text, count=1, flags=re.MULTILINE)
        with pytest.raises(DataError, match=expected):
            read_preset("x.toml", without, own=False)


@pytest.mark.parametrize("model", PROMPTS)
def test_prompts_are_the_makers_to_the_last_character(model: str) -> None:
    assert named(model).prompts == dict(zip(ROLES, PROMPTS[model], strict=True))


def test_no_prompt_goes_unchecked() -> None:
    unchecked = {p.id for p in presets() if any(p.prompts.values())} - set(PROMPTS)
    assert unchecked == {"retrieva-jp/amber-base", "retrieva-jp/amber-large"}
    for name in unchecked:
        prompts = named(name).prompts
        assert prompts["query"] == "関連した文書を探すために次の文を表現して\n"
        assert all(prompt.endswith("して\n") for prompt in prompts.values())


def test_the_adapters_of_jina() -> None:
    preset = named("jina-embeddings-v3")
    expected = ("retrieval.query", "retrieval.passage", "classification", "separation")
    assert preset.routes == dict(zip(ROLES, expected, strict=True))
    assert preset.remote_code
    assert "einops" in preset.packages
    assert [p.id for p in presets() if p.routes] == [preset.id]


@pytest.mark.parametrize(
    ("model", "dimensions", "tokens", "pooling", "normalize"),
    [
        ("ruri-v3-30m", 256, 8192, "mean", False),
        ("ruri-v3-70m", 384, 8192, "mean", False),
        ("ruri-v3-130m", 512, 8192, "mean", False),
        ("ruri-v3-310m", 768, 8192, "mean", False),
        ("multilingual-e5-small", 384, 512, "mean", True),
        ("multilingual-e5-base", 768, 512, "mean", True),
        ("multilingual-e5-large", 1024, 512, "mean", True),
        ("bge-m3", 1024, 8192, "cls", True),
        ("sarashina-embedding-v1-1b", 1792, 8192, "last", False),
        ("embeddinggemma-300m", 768, 2048, "mean", True),
        ("bert-base-japanese", 768, 512, "mean", None),
        ("text-embedding-3-small", 1536, 8191, None, True),
        ("text-embedding-3-large", 3072, 8191, None, True),
    ],
)
def test_facts_of_the_cards(
    model: str, dimensions: int, tokens: int, pooling: str | None, normalize: bool | None
) -> None:
    preset = named(model)
    assert (preset.dimensions, preset.max_length) == (dimensions, tokens)
    assert (preset.pooling, preset.normalize) == (pooling, normalize)


def test_models_with_more_modules_than_pooling_are_run_by_them() -> None:
    needing = ("embeddinggemma-300m", "jina-embeddings-v3", "static-embedding-japanese")
    assert {named(name).backend for name in needing} == {"sentence-transformers"}


def test_the_published_rows() -> None:
    rows = [preset.published for preset in presets() if preset.published]
    assert len(rows) == len(set(rows)) == 14
    assert set(rows) == PUBLISHED
    for row in rows:  # the row's own name finds the preset too
        assert named(row).published == row


def test_the_published_rows_are_those_of_the_release(data_folder: Path) -> None:
    text = (data_folder / "published_results.json").read_text(encoding="utf-8")
    assert set(json.loads(text)["models"]) == PUBLISHED


def test_size_of_bert_by_arithmetic() -> None:
    words, width, layers, positions, inner = 32_000, 768, 12, 512, 3072
    embeddings = (words + positions + 2) * width + 2 * width
    attention = 4 * (width * width + width) + 2 * width
    feed = width * inner + inner + inner * width + width + 2 * width
    pooler = width * width + width
    expected = embeddings + layers * (attention + feed) + pooler
    assert named("bert-base-japanese").parameters == expected


def test_bert_keeps_the_dictionary_it_was_trained_with() -> None:
    for model in ("bert-base-japanese", "bert-base-japanese-fin-additional"):
        assert named(model).settings == {"mecab_dic": "ipadic"}
        assert set(named(model).packages) == {"fugashi", "ipadic"}


# --- the schema


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "id: missing, expected text"),
        ("id = 3", "id: found 3, expected text"),
        ('id = " "', "id: found ' ', expected text that is not empty"),
        ('id = "m', "not TOML: "),
        ('id = "m"\nid = "n"', "not TOML: "),
        ('id = "m"\npoolling = "mean"', "unknown key poolling; known here: aliases, backend"),
        ('id = "m"\nbackend = "onnx"', "backend: found 'onnx', expected transformers or"),
        ('id = "m"\npooling = "median"', "pooling: no pooling 'median'; expected"),
        ('id = "m"\npooling = "cls+median"', "pooling: no pooling 'median'; expected"),
        ('id = "m"\npooling = true', "pooling: found True, expected text"),
        ('id = "m"\nlayer = "last"', "layer: found 'last', expected a whole number"),
        ('id = "m"\nlayer = true', "layer: found True, expected a whole number"),
        ('id = "m"\nmax_length = 0', "max_length: found 0, expected a whole number above 0"),
        ('id = "m"\nmax_length = "512"', "max_length: found '512', expected a whole number"),
        ('id = "m"\nmax_length = true', "max_length: found True, expected a whole number"),
        ('id = "m"\nnormalize = "yes"', "normalize: found 'yes', expected true or false"),
        ('id = "m"\nremote_code = 1', "remote_code: found 1, expected true or false"),
        ('id = "m"\nmatryoshka = [256, 0]', "matryoshka: found [256, 0], expected a list"),
        ('id = "m"\nmatryoshka = 256', "matryoshka: found 256, expected a list"),
        ('id = "m"\ndimensions = 256\nmatryoshka = [256]', "expected numbers below 256"),
        ('id = "m"\npackages = "einops"', "packages: found 'einops', expected a list"),
        ('id = "m"\npackages = [1]', "packages: found 1, expected a list"),
        ('id = "m"\nprompts = "query: "', "prompts: found 'query: ', expected a mapping"),
        ('id = "m"\n[prompts]\npassage = "p: "', "unknown key prompts.passage; known here:"),
        ('id = "m"\n[prompts]\nquery = 1', "prompts.query: found 1, expected text"),
        ('id = "m"\n[routes]\nindex = "a"', "unknown key routes.index; known here:"),
        ('id = "m"\n[settings]\na = [1]', "settings.a: found [1], expected text, a number"),
        ('id = "m"\ntrained_on_benchmark = "maybe"', "expected yes or no or unknown"),
        ('id = "m"\nchecked = "2026-11-30"', "checked: found '2026-11-30', expected a date"),
        ('id = "m"\nchecked = 2026-11-30T10:00:00', "expected a date such as"),
        ('id = "m"\n[sources]\nid = "https://x"', "unknown key sources.id; known here:"),
        ('id = "m"\n[sources]\npooling = "the card"', "sources.pooling: found 'the card'"),
        ('id = "m"\n[sources]\npooling = []', "sources.pooling: found [], expected an address"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_a_preset_of_ones_own_needs_its_id_alone() -> None:
    preset = own('id = "team/model"')
    assert (preset.title, preset.short) == ("model", "model")
    assert (preset.backend, preset.pooling) == ("transformers", None)
    assert preset.prompts == preset.routes == preset.settings == {}
    assert preset.trained_on_benchmark == "unknown"


def test_layer_and_joined_poolings_and_empty_prompts_are_kept() -> None:
    preset = own('id = "m"\nlayer = -2\npooling = "cls+mean"\n[prompts]\nquery = ""')
    assert (preset.layer, preset.pooling, preset.prompts) == (-2, "cls+mean", {"query": ""})


# --- finding


@pytest.mark.parametrize(
    "name", ["cl-nagoya/ruri-v3-30m", "CL-Nagoya/Ruri-V3-30M", "ruri-v3-30m", "Ruri-v3-30m"]
)
def test_id_and_short_name_in_any_case(name: str) -> None:
    assert named(name).id == "cl-nagoya/ruri-v3-30m"


@pytest.mark.parametrize("name", ["", "ruri", "ruri-v3", "v3-30m", "other/ruri-v3-30m", "lexical"])
def test_other_names_find_nothing(name: str) -> None:
    assert find_preset(name) is None


def test_a_local_folder_is_never_taken_for_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_preset("ruri-v3-30m") is not None
    (tmp_path / "ruri-v3-30m").mkdir()
    assert find_preset("ruri-v3-30m") is None
    assert find_preset("./ruri-v3-30m") is None
    assert get_preset("ruri-v3-30m").id == "cl-nagoya/ruri-v3-30m"  # asked for by --preset


def test_a_short_name_of_two_models_finds_neither() -> None:
    one = own('id = "a/model"')
    two = own('id = "b/Model"')
    assert set(_named([one, two])) == {"a/model", "b/model"}
    assert _named([one])["model"] is one


def test_an_id_goes_before_another_models_short_name() -> None:
    whole = own('id = "model"')
    part = own('id = "b/model"')
    assert _named([part, whole])["model"] is whole


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("intfloat/multilingual-e5-smal", "intfloat/multilingual-e5-small"),
        ("intfloat/multilingual-e5-samll", "intfloat/multilingual-e5-small"),
        ("cl-nagoya/ruri-v3-33m", "cl-nagoya/ruri-v3-30m"),
        ("ruri_v3_310m", "cl-nagoya/ruri-v3-310m"),
        ("jina-embedding-v3", "jinaai/jina-embeddings-v3"),
        ("sarashina", "sbintuitions/sarashina-embedding-v1-1b"),
    ],
)
def test_typing_errors(typed: str, meant: str) -> None:
    assert meant in suggest(typed)
    assert len(suggest(typed)) <= 3
    with pytest.raises(UsageError, match=re.escape(f"no preset {typed!r}; did you mean")):
        get_preset(typed)


@pytest.mark.parametrize("name", ["my-model", "x", "", "sentence-transformers/LaBSE"])
def test_names_that_are_like_none(name: str) -> None:
    assert suggest(name) == ()


def test_an_unknown_preset_like_none_points_to_the_list() -> None:
    with pytest.raises(UsageError, match="no preset 'my-model'; see `jfinteb models`"):
        get_preset("my-model")


def test_a_preset_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('id = "team/model"\n[prompts]\nquery = "検索: "\n', encoding="utf-8")
    assert get_preset(str(path)).prompts == {"query": "検索: "}
    path.write_text('id = "m"\npoling = "mean"', encoding="utf-8")
    with pytest.raises(DataError, match=r"^my\.toml: unknown key poling"):
        get_preset(str(path))


def test_a_preset_from_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read preset .*none\.toml: No such file"):
        get_preset(str(tmp_path / "none.toml"))
    (tmp_path / "sjis.toml").write_bytes('id = "日本"'.encode("shift_jis"))
    with pytest.raises(UsageError, match=r"sjis\.toml: it is not UTF-8"):
        get_preset(str(tmp_path / "sjis.toml"))


# --- hints for folders


def model_folder(path: Path, config: Any) -> Path:
    path.mkdir(parents=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (path / "config.json").write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("folder", "config", "expected"),
    [
        ("x", {"_name_or_path": "intfloat/multilingual-e5-small"}, "multilingual-e5-small"),
        ("x", {"_name_or_path": "cl-tohoku/bert-base-japanese"}, "bert-base-japanese"),
        ("x", {"_name_or_path": "/home/me/models/ruri-v3-30m"}, "ruri-v3-30m"),
        ("Ruri-v3-30m", {}, "ruri-v3-30m"),
        ("ruri-v3-30m", "{broken", "ruri-v3-30m"),
        ("ruri-v3-30m", [], "ruri-v3-30m"),
        ("ruri-v3-30m", {"_name_or_path": 3}, "ruri-v3-30m"),
        ("models--BAAI--bge-m3/snapshots/5617a9f", {}, "bge-m3"),
        ("x", {"_name_or_path": "someone/their-model"}, None),
        ("x", {}, None),
        ("ruri", {}, None),
    ],
)
def test_what_a_folder_looks_like(
    tmp_path: Path, folder: str, config: Any, expected: str | None
) -> None:
    found = looks_like(model_folder(tmp_path / folder, config))
    assert (found.short if found else None) == expected


def test_only_a_folder_looks_like_something(tmp_path: Path) -> None:
    assert looks_like("cl-nagoya/ruri-v3-30m") is None
    (tmp_path / "bge-m3").write_text("a file", encoding="utf-8")
    assert looks_like(tmp_path / "bge-m3") is None


# --- overriding

PRESET = own(
    'id = "team/model"\npooling = "cls"\nlayer = -2\nmax_length = 128\nnormalize = true\n'
    "pool_prompt = false\nspecial_tokens = false\nremote_code = true\n"
    'dtype = "bfloat16"\n[prompts]\nquery = "q: "\ndocument = "d: "\n'
    '[routes]\nquery = "one"\n[settings]\na = 1\nb = "x"\n'
)
GIVEN = EncoderOptions(model="./folder")


def test_a_preset_fills_what_nobody_said() -> None:
    done = apply(PRESET, GIVEN, set())
    assert done == EncoderOptions(
        model="./folder",
        pooling="cls",
        layer=-2,
        special_tokens=False,
        pool_prompt=False,
        prompts={"query": "q: ", "document": "d: "},
        routes={"query": "one"},
        settings={"a": 1, "b": "x"},
        max_length=128,
        normalize=True,
    )
    assert not done.trust_remote_code
    assert done.dtype == "float32"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pooling", "auto"),
        ("layer", -1),
        ("special_tokens", True),
        ("pool_prompt", None),
        ("max_length", 64),
        ("normalize", False),
    ],
)
def test_what_the_user_gave_stays(name: str, value: Any) -> None:
    options = replace(GIVEN, **{name: value})
    done = apply(PRESET, options, {name})
    assert getattr(done, name) == value
    assert replace(done, **{name: None}) == replace(apply(PRESET, GIVEN, set()), **{name: None})


def test_prompts_routes_and_settings_merge_by_key() -> None:
    options = replace(
        GIVEN,
        prompts={"query": "", "clustering": "c: "},
        routes={"document": "two"},
        settings={"b": "y"},
    )
    done = apply(PRESET, options, set())
    assert done.prompts == {"query": "", "document": "d: ", "clustering": "c: "}
    assert done.routes == {"query": "one", "document": "two"}
    assert done.settings == {"a": 1, "b": "y"}
    assert PRESET.prompts == {"query": "q: ", "document": "d: "}


@pytest.mark.parametrize("name", ["prompts", "routes", "settings"])
def test_a_whole_field_can_be_taken_from_the_preset(name: str) -> None:
    done = apply(PRESET, GIVEN, {name})
    assert getattr(done, name) == {}


@pytest.mark.parametrize(
    ("backend", "prompts", "routes", "max_length"),
    [
        ("sentence-transformers", PRESET.prompts, PRESET.routes, 128),
        ("api", PRESET.prompts, PRESET.routes, None),
        ("custom", PRESET.prompts, {}, None),
        ("mteb", {}, {}, None),
    ],
)
def test_other_backends_are_told_only_what_they_can_be_told(
    backend: str, prompts: Any, routes: Any, max_length: int | None
) -> None:
    done = apply(PRESET, replace(GIVEN, backend=backend), {"backend"})
    assert done == EncoderOptions(
        model="./folder",
        backend=backend,
        prompts=prompts,
        routes=routes,
        max_length=max_length,
        normalize=True,
    )


def test_the_lexical_baseline_is_told_nothing() -> None:
    options = replace(GIVEN, backend="lexical")
    assert apply(PRESET, options, {"backend"}) == options


def test_an_endpoints_own_preset_gives_its_length() -> None:
    preset = named("text-embedding-3-small")
    done = apply(preset, EncoderOptions(model="text-embedding-3-small"), set())
    assert (done.model, done.backend) == ("openai/text-embedding-3-small", "api")
    assert (done.max_length, done.normalize) == (8191, True)


def test_only_token_states_of_ours_are_told_not_to_be_scaled() -> None:
    """A model whose last module scales cannot be told otherwise, and needs not be."""
    unscaled = own('id = "m"\nnormalize = false')
    assert apply(unscaled, GIVEN, set()).normalize is False
    other = replace(GIVEN, backend="sentence-transformers")
    assert apply(unscaled, other, {"backend"}).normalize is None


def test_the_default_backend_is_not_a_wish_of_the_user() -> None:
    preset = named("embeddinggemma-300m")
    done = apply(preset, EncoderOptions(model=preset.id), set())
    assert done.backend == "sentence-transformers"
    assert done.pooling == "auto"


@pytest.mark.parametrize("name", ["Ruri-v3-30M", "ruri-v3-30m", "cl-nagoya/ruri-v3-30m"])
def test_a_short_name_becomes_the_hub_id(name: str) -> None:
    done = apply(named(name), EncoderOptions(model=name), set())
    assert done.model == "cl-nagoya/ruri-v3-30m"


def test_another_model_keeps_its_name() -> None:
    for model in ("team/other", "./folder"):
        assert apply(named("ruri-v3-30m"), EncoderOptions(model=model), set()).model == model


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.short)
def test_every_preset_gives_options_that_are_accepted(preset: Preset) -> None:
    done = apply(preset, EncoderOptions(model=preset.short), set())
    assert done.model == preset.id
    assert done.backend in BACKENDS
    assert done.prompts == preset.prompts


def test_an_encoder_runs_as_its_preset_says(tiny: dict[str, Path]) -> None:
    """From the words of E5's card to the spec of an encoder, and a vector of length 1."""
    options = EncoderOptions(model=str(tiny["xlm_roberta"]), device="cpu", prompts={"query": "Q: "})
    encoder = open_encoder(apply(named("multilingual-e5-small"), options, set()))
    spec = encoder.spec
    assert [spec.prompt(role) for role in Role] == ["Q: ", "passage: ", "query: ", "query: "]
    assert (spec.pooling, spec.normalize) == ("mean", True)
    vector = encoder.encode(["景気は悪い。"], Role.DOCUMENT)[0]
    assert float((vector**2).sum()) == pytest.approx(1.0, abs=1e-5)


# --- packages, words


def test_missing_packages_by_their_pip_names() -> None:
    packages = ["sentence-transformers", "protobuf", "no-such-package", "nothere.at.all", "rich"]
    preset = own(f'id = "m"\npackages = {json.dumps(packages)}')
    assert missing_packages(preset) == ("no-such-package", "nothere.at.all")
    assert "no-such-package (not installed)" in describe(preset)
    assert "rich (not installed)" not in describe(preset)


def test_the_table_has_a_line_a_model() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(models_table(presets()))
    lines = shown.get().splitlines()
    for preset in presets():
        assert len([line for line in lines if line.startswith(f"{preset.id} ")]) == 1
    ruri = next(line for line in lines if line.startswith("cl-nagoya/ruri-v3-310m"))
    assert ruri.split()[1:] == ["315M", "768", "8,192", "transformers", "by", "role", "yes"]


def test_the_long_form_shows_where_a_prompt_ends() -> None:
    shown = describe(named("ruri-v3-30m"))
    assert "query          '検索クエリ: '" in shown
    assert "36,705,536" in shown
    assert "https://huggingface.co/cl-nagoya/ruri-v3-30m (pooling, prompts," in shown
    assert "--trust-remote-code" not in shown
    assert "needed: --trust-remote-code" in describe(named("jina-embeddings-v3"))


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.short)
def test_the_long_form_keeps_all_that_is_known(preset: Preset) -> None:
    shown = describe(preset)
    known = [preset.title, preset.backend, *preset.packages, *preset.notes, *preset.routes.values()]
    known += [repr(prompt) for prompt in preset.prompts.values()]
    known += [address for found in preset.sources.values() for address in found]
    assert all(part in shown for part in known)


# --- the docs


def test_the_tables_of_the_docs_are_the_files() -> None:
    text = DOCS.read_text(encoding="utf-8")
    block = re.search(r"<!-- presets -->\n(.*)<!-- /presets -->", text, flags=re.DOTALL)
    assert block is not None
    assert block[1] == markdown(presets())


def test_markdown_keeps_its_columns() -> None:
    for table in markdown(presets()).strip().split("\n\n"):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1


def test_the_example_of_the_docs_is_a_preset() -> None:
    text = DOCS.read_text(encoding="utf-8")
    block = text.partition("    # my-model.toml\n")[2].partition("    python eval/run.py")[0]
    preset = own("\n".join(line.strip() for line in block.splitlines()))
    assert preset.prompts == {"query": "query: ", "document": "passage: "}
    assert (preset.pooling, preset.max_length, preset.normalize) == ("mean", 512, True)


def test_the_docs_name_every_key() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| key | what |")[2]
    named_there = set(re.findall(r"`\[?([a-z_]+)\]?`", table.partition("\n\n")[0]))
    assert {f.name for f in fields(Preset)} <= named_there


def test_every_backend_is_told_what_it_takes_of_a_preset() -> None:
    """One that is not would run without prompts under the preset's name."""
    preset = get_preset("multilingual-e5-small")
    for backend in backends.BACKENDS:
        options = EncoderOptions(model="m", backend=backend)
        prompts = apply(preset, options, {"backend"}).prompts
        assert bool(prompts) == (backend not in ("lexical", "mteb")), backend
    openvino = apply(preset, EncoderOptions(model="m", backend="openvino"), {"backend"})
    plain = apply(preset, EncoderOptions(model="m"), {"backend"})
    assert openvino == replace(plain, backend="openvino")
