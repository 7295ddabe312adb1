"""The network of a transformers model: its weights, whole, and copies that share them."""

from __future__ import annotations

import copy
import inspect
import re
import threading
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModel

from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.encoder import ModelError

__all__ = ["accepted", "read_network", "stop_by", "twins"]

_BUFFERS = 1 << 28  # bytes of all copies of a network's buffers
_LAYER = re.compile(r"(^|\.)(layers?|h|blocks?)\.\d+\.")


def read_network(
    files: ModelFiles, config: Any, dtype: str, common: Mapping[str, Any]
) -> tuple[torch.nn.Module, list[str]]:
    """The part of a model that reads texts, from safetensors only, and notes on its weights.

    Args:
        files: of the model.
        config: of the model.
        dtype: of the weights, torch's name.
        common: revision and trust, as `from_pretrained` takes them.

    Raises:
        ModelError: they cannot be read, or layers of the architecture are missing from them.
    """
    with files.reported():
        model, info = AutoModel.from_pretrained(
            files.location,
            config=config,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told below, by name
            **common,
        )
    encoder = _encoder_of(model)
    random = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    needed = _names_in(model, encoder)
    wrong = sorted(key for key in random if key in needed and "pooler" not in key)
    if wrong:
        raise ModelError(
            f"{files.name}: {len(wrong)} tensors of {type(model).__name__} are not in "
            f"the weights or have another shape there, first {wrong[0]}; they would be random"
        )
    unused = sorted(key for key in info["unexpected_keys"] if _LAYER.search(key))
    notes = []
    if unused:
        notes.append(
            f"warning: {len(unused)} layer tensors of the weights are not used, first {unused[0]}"
        )
    return encoder, notes


def _encoder_of(model: Any) -> Any:
    """The part that reads texts: of an encoder-decoder its encoder, else the model itself.

    Weights of an encoder alone (sentence-t5) may say `is_encoder_decoder: false`, and `AutoModel`
    still makes both halves.
    """
    halves = getattr(model, "encoder", None), getattr(model, "decoder", None)
    return model.get_encoder() if None not in halves else model


def _names_in(model: torch.nn.Module, part: torch.nn.Module) -> set[str]:
    """Names that the tensors of a part have in the whole model."""
    tensors = {id(t) for t in (*part.parameters(), *part.buffers())}
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers())
    return {name for name, tensor in named if id(tensor) in tensors}


def accepted(network: torch.nn.Module) -> frozenset[str] | None:
    """Inputs that a network takes by name; None: any."""
    parameters = inspect.signature(network.forward).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


class _Stopped(RuntimeError):
    """Computing was given up; nobody waits for what it would have given."""


def stop_by(network: torch.nn.Module, stopped: threading.Event) -> None:
    """Let a network give up before its next layer once `stopped` is set.

    A batch of a large model takes a thread of a CPU minutes, and threads cannot be killed.
    """

    def check(module: torch.nn.Module, inputs: Any) -> None:
        if stopped.is_set():
            raise _Stopped

    for part in network.modules():
        if isinstance(part, torch.nn.ModuleList):
            for layer in part:
                layer.register_forward_pre_hook(check)


def twins(network: torch.nn.Module, count: int) -> list[torch.nn.Module]:
    """A network and copies of it that have its very weights, but buffers and state of their own.

    Networks keep state while they compute (rotary tables that grow, a remote model's caches), so
    two threads must not run one. There are fewer than asked for where the buffers of all would take
    more than 256 MB, and none but the network itself where it cannot be copied: it holds a lock, or
    what runs was put into it by hand and is bound to it.
    """
    own = sum(buffer.nbytes for buffer in network.buffers())
    count = max(1, min(count, 1 + _BUFFERS // max(own, 1)))
    if any("forward" in vars(part) for part in network.modules()):
        return [network]
    weights = {id(weight): weight for weight in network.parameters()}
    try:
        return [network, *(copy.deepcopy(network, dict(weights)) for _ in range(count - 1))]
    except Exception:  # a model's own code raises what it likes
        return [network]
