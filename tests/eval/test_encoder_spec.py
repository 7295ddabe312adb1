"""A spec's digest covers all that changes a vector."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.encoder import EncoderSpec, as_role
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

BASE = EncoderSpec(model="m", revision="r", backend="b", pooling="mean")
OTHER: dict[str, Any] = {
    "model": "m2",
    "revision": "r2",
    "backend": "b2",
    "pooling": "cls",
    "layer": -2,
    "special_tokens": False,
    "pool_prompt": False,
    "prompts": {"query": "query: "},
    "max_length": 512,
    "truncate_dim": 8,
    "normalize": True,
    "dtype": "bfloat16",
    "remote_code": True,
    "routes": {"query": "retrieval.query"},
    "settings": {"dimensions": 256},
    "precision": "int8",
}
NAMES = [field.name for field in dataclasses.fields(EncoderSpec)]


@pytest.mark.parametrize("name", NAMES)
def test_any_field_changes_the_digest(name: str) -> None:
    assert dataclasses.replace(BASE, **{name: OTHER[name]}).digest != BASE.digest


def test_all_these_digests_differ() -> None:
    specs = [dataclasses.replace(BASE, **{name: OTHER[name]}) for name in NAMES]
    assert len({spec.digest for spec in [BASE, *specs]}) == len(NAMES) + 1


def test_the_prompt_of_each_role_counts() -> None:
    specs = [dataclasses.replace(BASE, prompts={role.value: "p: "}) for role in Role]
    assert len({spec.digest for spec in specs}) == len(Role)


def test_the_order_of_prompts_does_not_count_nor_does_an_empty_one() -> None:
    one = dataclasses.replace(BASE, prompts={"query": "a", "document": "b"})
    two = dataclasses.replace(BASE, prompts={"document": "b", "query": "a", "clustering": ""})
    assert one.digest == two.digest


def test_the_json_spells_out_every_role() -> None:
    plain = json.loads(json.dumps(dataclasses.replace(BASE, prompts={"query": "q: "}).to_json()))
    assert set(plain) == set(NAMES)
    assert plain["prompts"] == {
        "query": "q: ",
        "document": "",
        "classification": "",
        "clustering": "",
    }


@pytest.mark.parametrize("role", ["", "Query", "passage", "corpus"])
def test_unknown_roles(role: str) -> None:
    with pytest.raises(UsageError, match="no role") as caught:
        as_role(role)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="no role"):
        EncoderOptions(model="m", prompts={role: "p"})


@pytest.mark.parametrize("name", ["max_length", "truncate_dim", "batch_tokens"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_below_one(name: str, value: int) -> None:
    if (name, value) == ("truncate_dim", 0):
        pytest.skip("means all dimensions")
    with pytest.raises(UsageError, match=f"is {value}, expected"):
        EncoderOptions(model="m", **{name: value})  # type: ignore[arg-type]


def test_unknown_backend() -> None:
    with pytest.raises(UsageError, match="no backend 'x'; backends: auto, transformers"):
        open_encoder(EncoderOptions(model="m", backend="x"))
