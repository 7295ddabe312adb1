"""Limits, end-of-text tokens, and which tokens may enter the pool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from jfinteb.eval.backends.tokens import Tokenized, Tokens
from jfinteb.loaders.errors import JfintebError, UsageError

PROMPT = "passage: "
PROMPTED = ["2024年3月期", "ROEは10%", "(株)トヨタ", " 空白から", "円", "売上高"]
LENGTHS = [1, 2, 5, 13, 14, 15, 16, 17, 40]
Load = Callable[[str], Any]


@pytest.fixture(scope="module")
def load(tiny: dict[str, Path]) -> Load:
    return lambda name: transformers.AutoTokenizer.from_pretrained(tiny[name])


def tokens(tokenizer: Any, **options: Any) -> Tokens:
    defaults = {"limit": None, "end": False, "special_tokens": True, "pool_prompt": True}
    return Tokens(tokenizer, model="m", **(defaults | options))


def rows_of(got: Tokenized, values: Any) -> list[list[Any]]:
    """A flat array, one list a string."""
    return [part.tolist() for part in np.split(values, np.cumsum(got.lengths)[:-1])]


def ids_of(got: Tokenized) -> list[list[int]]:
    return rows_of(got, got.inputs["input_ids"])


def pools_of(got: Tokenized) -> list[list[bool]]:
    return rows_of(got, got.pooled)


@pytest.mark.parametrize("name", ["bert", "xlm_roberta", "t5", "llama"])
def test_no_character_of_the_text_leaves_the_pool(name: str, load: Load) -> None:
    tokenizer = load(name)
    strings = [PROMPT + text for text in PROMPTED]
    got = tokens(tokenizer, pool_prompt=False)(strings, PROMPT)
    for string, ids, pooled in zip(strings, ids_of(got), pools_of(got), strict=True):
        encoding = tokenizer(string)
        assert encoding["input_ids"] == ids
        covered = set()
        for t, inside in enumerate(pooled):
            span = encoding.token_to_chars(t)
            if span is not None and inside:
                covered |= set(range(span.start, span.end))
        wanted = {i for i in range(len(PROMPT), len(string)) if not string[i].isspace()}
        assert wanted <= covered
        prompt_only = {t for t in range(len(ids)) if _ends_in_prompt(encoding, t)}
        assert prompt_only
        assert not any(pooled[t] for t in prompt_only)


def _ends_in_prompt(encoding: Any, token: int) -> bool:
    span = encoding.token_to_chars(token)
    return span is not None and span.end <= len(PROMPT)


def test_the_prompt_alone_has_another_length_than_in_a_text(load: Load) -> None:
    """What makes counting the prompt's own tokens wrong; the case above would else show nothing."""
    tokenizer = load("xlm_roberta")
    alone = tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    joined = tokenizer(PROMPT + PROMPTED[0], add_special_tokens=False)["input_ids"]
    assert joined[: len(alone)] != alone


def test_special_tokens_before_the_prompt_leave_with_it(load: Load) -> None:
    got = tokens(load("bert"), pool_prompt=False)(["q: 円安"], "q: ")
    kept = [t for t, inside in zip(ids_of(got)[0], pools_of(got)[0], strict=True) if inside]
    assert load("bert").convert_ids_to_tokens(kept) == ["円", "安", "[SEP]"]


def test_special_tokens_out_of_the_pool(load: Load) -> None:
    got = tokens(load("bert"), special_tokens=False)(["円安", "円"], "")
    assert pools_of(got) == [[False, True, True, False], [False, True, False]]


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "xlm_roberta", "t5"])
def test_exactly_one_end_token_and_it_stands_last(name: str, load: Load) -> None:
    tokenizer = load(name)
    end = tokenizer.convert_tokens_to_ids("[SEP]" if name == "bert" else "</s>")
    texts = ["円" * n for n in LENGTHS]
    got = tokens(tokenizer, limit=16, end=True)(texts, "")
    plain = tokenizer(texts, add_special_tokens=False)["input_ids"]
    for text, ids, bare, cut in zip(texts, ids_of(got), plain, got.truncated, strict=True):
        assert ids.count(end) == 1, text
        assert ids[-1] == end
        assert len(ids) <= 16
        specials = sum(t in tokenizer.all_special_ids for t in ids)
        assert cut == (len(bare) + specials > 16)
        assert len(ids) == min(16, len(bare) + specials)
    assert got.truncated.any()
    assert not got.truncated.all()


@pytest.mark.parametrize("text", ["円安</s>", "</s>", "円</s>安</s>"])
def test_a_text_that_ends_in_the_end_token_gets_no_second_one(text: str, load: Load) -> None:
    tokenizer = load("llama")
    ids = ids_of(tokens(tokenizer, end=True)([text], ""))[0]
    assert ids == tokenizer(text)["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id


def test_the_end_token_comes_with_every_input_of_the_model(load: Load) -> None:
    got = tokens(load("llama"), end=True, limit=4)(["円", "円安が輸出企業を"], "")
    total = got.lengths.sum()
    assert all(len(values) == total for values in (*got.inputs.values(), got.pooled))


def test_last_pooling_without_any_end_token_is_an_error(load: Load) -> None:
    tokenizer = load("llama")
    tokenizer.eos_token = None
    with pytest.raises(JfintebError, match="no eos_token") as caught:
        tokens(tokenizer, end=True)
    assert "\n" not in str(caught.value)
    tokens(tokenizer)  # only where it is needed


@pytest.mark.parametrize(
    ("name", "end", "least"), [("bert", False, 3), ("bert", True, 3), ("llama", True, 2)]
)
def test_a_limit_without_room_for_text_is_refused(
    name: str, end: bool, least: int, load: Load
) -> None:
    with pytest.raises(UsageError, match=f"give {least} or more"):
        tokens(load(name), limit=least - 1, end=end)
    assert tokens(load(name), limit=least, end=end)(["円安"], "").lengths.tolist() == [least]


def test_batches_are_padded_on_the_right_with_the_models_padding(load: Load) -> None:
    made = tokens(load("xlm_roberta"))
    batch = made(["円", "円安が"], "").batch(np.array([1, 0]), made.pad_values)
    assert batch["input_ids"][1].tolist()[-2:] == [1, 1]  # <pad> is 1 here
    assert batch["attention_mask"].sum(dim=1).tolist() == [6, 4]
    assert batch["attention_mask"][1].tolist() == [1, 1, 1, 1, 0, 0]
    assert batch["pooled"].tolist() == batch["attention_mask"].tolist()
