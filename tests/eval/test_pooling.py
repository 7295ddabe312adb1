"""Pooling, against sentence-transformers on right padding and by hand on left padding."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from jfinteb.eval.pooling import MODES, pool
from jfinteb.loaders.errors import UsageError

STATES = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
LEFT = torch.tensor([[0, 0, 1, 1]])
RIGHT = torch.tensor([[1, 1, 0, 0]])
BY_HAND = [
    ("cls", LEFT, 3.0),
    ("last", LEFT, 4.0),
    ("mean", LEFT, 3.5),
    ("max", LEFT, 4.0),
    ("weighted_mean", LEFT, (1 * 3 + 2 * 4) / 3),
    ("mean_sqrt_len", LEFT, 7 / math.sqrt(2)),
    ("first_last_avg", LEFT, 3.5),
    ("cls", RIGHT, 1.0),
    ("last", RIGHT, 2.0),
    ("mean", RIGHT, 1.5),
    ("max", RIGHT, 2.0),
    ("weighted_mean", RIGHT, (1 * 1 + 2 * 2) / 3),
    ("mean_sqrt_len", RIGHT, 3 / math.sqrt(2)),
]
THEIRS = {
    "cls": "cls",
    "last": "lasttoken",
    "mean": "mean",
    "max": "max",
    "weighted_mean": "weightedmean",
    "mean_sqrt_len": "mean_sqrt_len_tokens",
}


@pytest.mark.parametrize(("mode", "mask", "expected"), BY_HAND)
def test_one_text_by_hand(mode: str, mask: torch.Tensor, expected: float) -> None:
    assert pool(mode, STATES, mask).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("mean", 4.0), ("max", 4.0), ("weighted_mean", 4.0), ("mean_sqrt_len", 4.0), ("cls", 3.0)],
)
def test_a_prompt_of_one_token_stays_out_of_the_pool(mode: str, expected: float) -> None:
    assert pool(mode, STATES, LEFT, torch.tensor([[0, 0, 0, 1]])).item() == expected


def test_the_pool_never_holds_padding() -> None:
    assert pool("mean", STATES, LEFT, torch.ones(1, 4)).item() == 3.5


def test_weights_are_places_in_the_text_also_when_the_prompt_is_out() -> None:
    # places 1, 2, 3, 4; the first is out: (2*2 + 3*3 + 4*4) / 9
    pooled = torch.tensor([[0, 1, 1, 1]])
    got = pool("weighted_mean", STATES, torch.ones(1, 4), pooled).item()
    assert got == pytest.approx(29 / 9, abs=1e-6)


@pytest.mark.parametrize("mode", THEIRS)
def test_right_padding_as_in_sentence_transformers(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        models = pytest.importorskip("sentence_transformers.models", reason="test extra")
    torch.manual_seed(0)
    states = torch.randn(5, 9, 7) - 2  # mostly negative: padding must not win a maximum
    mask = (torch.arange(9) < torch.tensor([[1], [2], [5], [8], [9]])).long()
    theirs = models.Pooling(7, pooling_mode=THEIRS[mode])
    expected = theirs({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]
    assert torch.allclose(pool(mode, states, mask), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "modes",
    [("cls", "mean"), ("cls", "max", "mean"), ("mean", "mean_sqrt_len", "last"), tuple(THEIRS)],
)
def test_joined_modes_as_in_sentence_transformers(modes: tuple[str, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        models = pytest.importorskip("sentence_transformers.models", reason="test extra")
    torch.manual_seed(2)
    states = torch.randn(4, 6, 5)
    mask = (torch.arange(6) < torch.tensor([[1], [3], [5], [6]])).long()
    theirs = models.Pooling(5, pooling_mode=[THEIRS[mode] for mode in modes])
    expected = theirs({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]
    got = pool("+".join(modes), states, mask)
    assert got.shape == (4, 5 * len(modes))
    # their order of parts is fixed, ours is as asked: each part of theirs is one of ours
    parts = [got[:, 5 * n : 5 * n + 5] for n in range(len(modes))]
    for n in range(len(modes)):
        part = expected[:, 5 * n : 5 * n + 5]
        assert any(torch.allclose(part, mine, atol=1e-6, rtol=0) for mine in parts)


@pytest.mark.parametrize("mode", ["mean", "max", "weighted_mean", "mean_sqrt_len"])
def test_a_prompt_out_of_the_pool_as_in_sentence_transformers(mode: str) -> None:
    """They cut the prompt's first tokens off the mask; places still count from the text's start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        models = pytest.importorskip("sentence_transformers.models", reason="test extra")
    torch.manual_seed(4)
    states = torch.randn(3, 7, 5)
    mask = (torch.arange(7) < torch.tensor([[3], [5], [7]])).long()
    theirs = models.Pooling(5, pooling_mode=THEIRS[mode], include_prompt=False)
    features = {"token_embeddings": states, "attention_mask": mask.clone(), "prompt_length": 2}
    expected = theirs(features)["sentence_embedding"]
    pooled = mask * (torch.arange(7) >= 2)
    assert torch.allclose(pool(mode, states, mask, pooled), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("cls+mean", [3.0, 3.5]),
        ("last+cls", [4.0, 3.0]),
        ("max+mean_sqrt_len+mean", [4.0, 7 / math.sqrt(2), 3.5]),
        ("mean+mean", [3.5, 3.5]),
    ],
)
def test_joined_modes_by_hand_on_left_padding(mode: str, expected: list[float]) -> None:
    assert pool(mode, STATES, LEFT)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_batch_padded_on_the_left_by_hand() -> None:
    """Two texts of two and three tokens; 9 stands in the padding."""
    states = torch.tensor([[[9.0], [9.0], [2.0], [6.0]], [[9.0], [1.0], [5.0], [3.0]]])
    mask = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    by_hand = {
        "cls": [2, 1],
        "last": [6, 3],
        "mean": [4, 3],
        "max": [6, 5],
        "weighted_mean": [(2 + 12) / 3, (1 + 10 + 9) / 6],
        "mean_sqrt_len": [8 / math.sqrt(2), 9 / math.sqrt(3)],
        "first_last_avg": [4, 3],
    }
    assert set(by_hand) == set(MODES)  # a new mode is worked out by hand here, too
    for mode, expected in by_hand.items():
        assert pool(mode, states, mask)[:, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_mode_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put into `MODES`, it is known by name, joined with others, and told in the message."""

    def median(states: torch.Tensor, attended: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        return states.masked_fill(~pooled.unsqueeze(-1), torch.nan).nanmedian(dim=1).values

    monkeypatch.setitem(MODES, "median", median)  # type: ignore[arg-type]
    mask = torch.tensor([[0, 1, 1, 1]])
    assert pool("cls+median", STATES, mask).tolist() == [[2.0, 3.0]]
    with pytest.raises(UsageError, match="median"):
        pool("middle", STATES, mask)


@pytest.mark.parametrize("mode", MODES)
def test_the_padding_side_changes_nothing(mode: str) -> None:
    torch.manual_seed(1)
    text = torch.randn(1, 3, 5)
    padding = torch.randn(1, 4, 5)
    left = pool(mode, torch.cat([padding, text], 1), torch.tensor([[0, 0, 0, 0, 1, 1, 1]]))
    right = pool(mode, torch.cat([text, padding], 1), torch.tensor([[1, 1, 1, 0, 0, 0, 0]]))
    assert torch.allclose(left, right, atol=1e-6, rtol=0)


def test_joined_modes_stand_side_by_side_in_the_order_given() -> None:
    states = torch.tensor([[[1.0, 10.0], [3.0, 30.0]]])
    mask = torch.ones(1, 2)
    assert pool("cls+mean", states, mask).tolist() == [[1.0, 10.0, 2.0, 20.0]]
    assert pool("mean+cls", states, mask).tolist() == [[2.0, 20.0, 1.0, 10.0]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filler", [float("nan"), float("inf"), 1e30])
def test_what_stands_in_padding_does_not_leak(mode: str, filler: float) -> None:
    states = STATES.clone()
    states[0, :2] = filler
    assert torch.equal(pool(mode, states, LEFT), pool(mode, STATES, LEFT))


def test_a_nan_in_the_text_is_kept() -> None:
    states = STATES.clone()
    states[0, 3] = float("nan")
    assert all(pool(mode, states, LEFT).isnan().all() for mode in MODES if mode != "cls")


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_pool_takes_the_whole_text(mode: str) -> None:
    assert torch.equal(pool(mode, STATES, LEFT, torch.zeros(1, 4)), pool(mode, STATES, LEFT))


@pytest.mark.parametrize("mode", MODES)
def test_a_text_without_tokens_is_zero(mode: str) -> None:
    assert pool(mode, STATES, torch.zeros(1, 4)).tolist() == [[0.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_in_float32(dtype: torch.dtype) -> None:
    # 1000 ones and a 1000: in bfloat16 a running sum stops at 256
    states = torch.ones(1, 1001, 1, dtype=dtype)
    states[0, 1000] = 1000
    got = pool("mean", states, torch.ones(1, 1001))
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(2000 / 1001, rel=1e-6)


@pytest.mark.parametrize("mode", ["", "median", "mean+", "+", "cls,mean"])
def test_unknown_modes_are_refused_in_one_line(mode: str) -> None:
    with pytest.raises(UsageError, match="no pooling") as caught:
        pool(mode, STATES, LEFT)
    assert "\n" not in str(caught.value)
