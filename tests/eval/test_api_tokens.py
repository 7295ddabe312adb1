"""Counting and cutting: on the limit to the token, never inside a character."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfinteb.eval.backends.api.fitting import fit
from jfinteb.eval.backends.api.packing import packed
from jfinteb.eval.backends.api.tokenizers import Characters, LocalFile, Tiktoken, open_counter
from jfinteb.loaders.errors import UnavailableError, UsageError

from .conftest import byte_level, metaspace, word_piece
from .proxy import Server, no_keys, opened, own_server, vectors_of  # noqa: F401

tiktoken = pytest.importorskip("tiktoken")

FAMILY = "👨‍👩‍👧"  # three people and two joiners: one character to a reader
FLAGS = "🇯🇵🇺🇸"
MARKED = unicodedata.normalize("NFD", "ガギグ")  # six code points, three characters
TEXT = f"売上高は{FAMILY}前年同期比{FLAGS}で{MARKED}8.4%増加しました。Net sales rose."


@pytest.fixture(scope="module")
def bytes_and_words() -> Tiktoken:
    """Every byte, and three merges: 売 and 上 whole, and "売上" together."""
    ranks = {bytes([n]): n for n in range(256)}
    for token in ("売".encode()[:2], "売".encode(), "上".encode()[:2], "上".encode()):
        ranks[token] = len(ranks)
    ranks["売上".encode()] = len(ranks)
    return Tiktoken(
        tiktoken.Encoding(
            "bytes",
            pat_str=r"[\s\S]+",
            mergeable_ranks=ranks,
            special_tokens={"<|endoftext|>": len(ranks)},
        )
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made: dict[str, Path] = {}
    for name, make in {"metaspace": metaspace, "bytes": byte_level, "words": word_piece}.items():
        made[name] = tmp_path_factory.mktemp(name)
        make().save_pretrained(made[name])
    return made


def test_bytes_are_counted_and_cut_on_characters(bytes_and_words: Tiktoken) -> None:
    # 売上 is 1 token, 高 and は 3 bytes each
    assert bytes_and_words.count(["売上高は", "売", "a"]).tolist() == [7, 1, 1]
    for limit, kept in {
        1: "売上",
        2: "売上",
        3: "売上",
        4: "売上高",
        6: "売上高",
        7: "売上高は",
    }.items():
        found = fit(bytes_and_words, ["売上高は"], limit, "")
        assert found.strings == [kept]
        assert found.truncated.tolist() == [limit < 7]
        assert found.tokens.tolist() == [bytes_and_words.count([kept])[0]]


def test_special_tokens_in_a_text_are_text(bytes_and_words: Tiktoken) -> None:
    assert bytes_and_words.count(["<|endoftext|>"]).tolist() == [13]
    assert fit(bytes_and_words, ["<|endoftext|>"], 5, "").strings == ["<|end"]


def test_special_tokens_in_a_text_are_text_in_a_file(files: dict[str, Path]) -> None:
    counter = LocalFile(files["bytes"] / "tokenizer.json")
    assert counter.count(["</s>"])[0] > 1


@pytest.mark.parametrize("whole", [FAMILY, FLAGS[:2], FLAGS[2:], MARKED[:2], "é", "か゚"])
def test_no_character_is_split(bytes_and_words: Tiktoken, whole: str) -> None:
    """Also where the limit falls between its code points."""
    for limit in range(1, 1 + len(whole.encode())):
        kept = fit(bytes_and_words, [f"a{whole}b"], limit, "").strings[0]
        assert kept == ("a" + whole if limit == 1 + len(whole.encode()) else "a")


def starts_a_character(text: str, place: int) -> bool:
    """By Unicode's own properties, for the characters of TEXT."""
    after, before = text[place:], text[:place]
    if not after or not before:
        return True
    flags = [c for c in before if "\U0001f1e6" <= c <= "\U0001f1ff"]
    inside_flag = "\U0001f1e6" <= after[0] <= "\U0001f1ff" and len(flags) % 2 == 1
    joined = after[0] == "\u200d" or before[-1] == "\u200d"
    return not (unicodedata.combining(after[0]) or joined or inside_flag)


@pytest.mark.parametrize("name", ["metaspace", "bytes", "words", "bytes_and_words", "characters"])
def test_cut_at_every_limit(name: str, files: dict[str, Path], bytes_and_words: Tiktoken) -> None:
    counters = {"bytes_and_words": bytes_and_words, "characters": Characters(1.3)}
    counter: Any = counters.get(name) or LocalFile(files[name] / "tokenizer.json")
    total = int(counter.count([TEXT])[0])
    kept = ""
    for limit in range(3, total + 2):
        try:
            found = fit(counter, [TEXT], limit, "")
        except UsageError:
            assert not kept  # no character fits: only before the first one that does
            continue
        assert TEXT.startswith(found.strings[0])
        assert starts_a_character(TEXT, len(found.strings[0]))
        assert int(counter.count(found.strings)[0]) == found.tokens[0] <= limit
        assert bool(found.truncated[0]) == (total > limit)
        assert len(found.strings[0]) >= len(kept)
        kept = found.strings[0]
    assert kept == TEXT


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40), st.integers(1, 60))
def test_any_text_is_cut_within_its_limit(bytes_and_words: Tiktoken, text: str, limit: int) -> None:
    text = text.encode("utf-8", "ignore").decode()
    try:
        found = fit(bytes_and_words, [text], limit, "")
    except UsageError:
        return
    assert text.startswith(found.strings[0])
    assert bytes_and_words.count(found.strings)[0] == found.tokens[0] <= max(limit, 0)
    if found.truncated[0]:
        assert not unicodedata.combining(text[len(found.strings[0])])


def test_special_tokens_around_a_text_count(files: dict[str, Path]) -> None:
    """Against transformers, whose limits count them too."""
    words = word_piece()
    texts = ["当社の売上高", "ROEは10%を超え、過去最高を更新した。", "円"]
    counter = LocalFile(files["words"] / "tokenizer.json")
    assert counter.count(texts).tolist() == [len(words(text)["input_ids"]) for text in texts]
    for limit in (4, 7):
        cut = words(texts, truncation=True, max_length=limit, return_offsets_mapping=True)
        ends = [max(end for _, end in spans) for spans in cut["offset_mapping"]]
        expected = [text[:end] for text, end in zip(texts, ends, strict=True)]
        assert fit(counter, texts, limit, "").strings == expected


def test_what_is_sent_is_cut_and_its_prompt_whole(server: Server, files: dict[str, Path]) -> None:
    options = {"tokenizer": str(files["words"]), "prompts": {"query": "query: "}}
    encoder = opened(server, max_length=10, **options)
    encoder.encode(["売上高は前年同期比で増加", "円安"], "query")
    sent = {text for request in server.requests[1:] for text in request.texts}
    assert sent == {"query: 売上", "query: 円安"}  # [CLS] q u e r y : 売 上 [SEP]
    assert (encoder.counts.truncated, encoder.counts.tokens) == (1, 20)


def test_no_room_after_the_prompt(bytes_and_words: Tiktoken) -> None:
    with pytest.raises(
        UsageError, match="max-length 8 leaves no room for a character of 'query: 円"
    ):
        fit(bytes_and_words, ["query: 円安"], 8, "query: ")
    assert fit(bytes_and_words, ["query: 円安"], 10, "query: ").strings == ["query: 円"]


def test_characters_stand_in(server: Server) -> None:
    encoder = opened(server, max_length=10, tokenizer="chars:0.5")
    text = "当社の連結売上高は増加"
    np.testing.assert_array_equal(encoder.encode([text], "query"), vectors_of([text[:5]]))
    assert encoder.spec.settings["tokenizer"] == "chars:0.5"
    note = "chars:0.5 stands in for the server's tokenizer: tokens are a guess, and texts are cut"
    assert any(note in n for n in encoder.notes)
    assert any("no max length: texts go whole" in n for n in opened(server).notes)


def test_tokenizers_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": 1}), encoding="utf-8")
    with pytest.raises(UsageError, match="cannot read tokenizer"):
        open_counter(str(tmp_path), "m", at_openai=False)
    with pytest.raises(UsageError, match="tiktoken knows no encoding for the model 'm'"):
        open_counter("tiktoken", "m", at_openai=False)
    with pytest.raises(UsageError, match="tiktoken knows no encoding 'x'"):
        open_counter("tiktoken:x", "m", at_openai=False)

    def offline(name: str) -> Any:
        raise ConnectionError(f"no route to the file of {name}")

    monkeypatch.setattr(tiktoken, "get_encoding", offline)
    with pytest.raises(UnavailableError, match=r"file of cl100k_base.*TIKTOKEN_CACHE_DIR"):
        open_counter("auto", "text-embedding-3-small", at_openai=True)


def test_openai_models_against_facts() -> None:
    """Tokens that OpenAI's guide to counting them prints: 誕 is two, とう is one."""
    try:
        counter = open_counter("auto", "text-embedding-3-small", at_openai=True)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert counter.name == "tiktoken:cl100k_base"
    assert counter.count(["tiktoken is great!", "お誕生日おめでとう"]).tolist() == [6, 9]
    for limit, kept in {1: "お", 2: "お", 3: "お誕", 8: "お誕生日おめで"}.items():
        assert fit(counter, ["お誕生日おめでとう"], limit, "").strings == [kept]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 7), st.integers(1, 80))
def test_packing(tokens: list[int], inputs: int, budget: int) -> None:
    array = np.array(tokens, dtype=np.int64)
    units = list(packed(array, inputs, budget))
    assert sorted(row for unit in units for row in unit.tolist()) == list(range(len(tokens)))
    for unit in units:
        assert 1 <= len(unit) <= inputs
        assert len(unit) == 1 or array[unit].sum() <= budget
