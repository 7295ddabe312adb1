"""What can be told to the API backend, each setting checked before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from jfinteb.eval.backends.base import EncoderOptions
from jfinteb.loaders.errors import UsageError

__all__ = ["MOST_INPUTS", "MOST_TOKENS", "ApiSettings", "refuse_unused"]

MOST_INPUTS = 2048  # a request, as OpenAI documents them
MOST_TOKENS = 300_000
_UNUSED = {
    "pooling": "auto",
    "layer": -1,
    "special_tokens": True,
    "pool_prompt": None,
    "dtype": "float32",
    "device": "auto",
    "trust_remote_code": False,
}
_AT_OPENAI = {"inputs": 256, "request_tokens": 100_000, "timeout": 120.0, "deadline": 900.0}
_ELSEWHERE = {"inputs": 32, "request_tokens": 8192, "timeout": 600.0, "deadline": 3600.0}
_RANGES: dict[str, tuple[float, float]] = {
    "concurrency": (1, 64),
    "inputs": (1, MOST_INPUTS),
    "request_tokens": (1, MOST_TOKENS),
    "dimensions": (0, 1 << 16),
    "retries": (0, 100),
    "timeout": (0.1, 86_400),
    "deadline": (0.1, 86_400),
    "price": (0, 1e6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of one endpoint.

    The first group changes vectors and enters the spec; the others do not. Where `inputs`,
    `request_tokens`, `timeout` and `deadline` are 0, the kind of server decides: see `for_server`.

    Attributes:
        base_url: root of the interface, usually ending in `/v1`; empty: `OPENAI_BASE_URL`, or
            OpenAI itself. For Azure the resource's address; empty: `AZURE_OPENAI_ENDPOINT`.
        azure_deployment: name of a deployment; with `api_version` it makes the endpoint Azure's.
        api_version: of Azure's interface; empty: `OPENAI_API_VERSION`.
        model_name: what the server calls the model, where that is not the name it has elsewhere.
        encoding_format: how vectors travel, `float` (decimal digits) or `base64` (float32 bits).
        dimensions: asked of the server, for models that can shorten their vectors; 0: not sent.
        tokenizer: counts and cuts texts; see `jfinteb.eval.backends.api.tokenizers`.
        route_field: name under which the role's route is sent (`input_type`, `task`, …).
        concurrency: requests under way at once.
        inputs: texts a request at most.
        request_tokens: tokens a request at most; a longer text goes alone.
        timeout: seconds for one attempt of a request.
        deadline: seconds for a request with all its attempts.
        retries: attempts after the first.
        price: of a million tokens, in any currency; 0: unknown, or free.
    """

    base_url: str = ""
    azure_deployment: str = ""
    api_version: str = ""
    model_name: str = ""
    encoding_format: str = "float"
    dimensions: int = 0
    tokenizer: str = "auto"
    route_field: str = "input_type"

    concurrency: int = 4
    inputs: int = 0
    request_tokens: int = 0
    timeout: float = 0.0
    deadline: float = 0.0
    retries: int = 8
    price: float = 0.0

    @classmethod
    def of(cls, options: EncoderOptions) -> ApiSettings:
        """Settings from the options; `batch_tokens` is another name of `request_tokens`.

        Raises:
            UsageError: a setting that does not exist, or a value outside its range.
        """
        given: dict[str, str | int | float | bool] = dict(options.settings)
        if options.batch_tokens is not None:
            given.setdefault("request_tokens", options.batch_tokens)
        return cls(**_checked(given))  # type: ignore[arg-type]

    def for_server(self, *, paid: bool) -> ApiSettings:
        """The same with every 0 settled.

        A server of one's own may read some hundred tokens a second: a request that times out there
        is computed to its end all the same, and asked again makes the queue longer.

        Args:
            paid: whether it is OpenAI's or Azure's.
        """
        usual = _AT_OPENAI if paid else _ELSEWHERE
        missing = {name: value for name, value in usual.items() if not getattr(self, name)}
        return replace(self, **missing)  # type: ignore[arg-type]


def refuse_unused(options: EncoderOptions) -> None:
    """Refuse options of local models: the server alone decides them.

    Raises:
        UsageError: one of them is given.
    """
    for name, default in _UNUSED.items():
        if getattr(options, name) != default:
            flag = name.replace("_", "-")
            raise UsageError(f"the api backend has no {flag}; leave --{flag} out")


def _checked(given: Mapping[str, str | int | float | bool]) -> dict[str, str | int | float]:
    kinds = {field.name: type(field.default) for field in fields(ApiSettings)}
    checked: dict[str, str | int | float] = {}
    for name, value in given.items():
        if name not in kinds:
            raise UsageError(f"no setting {name!r}; the api backend has {', '.join(kinds)}")
        kind = kinds[name]
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or isinstance(value, bool):
            raise UsageError(f"setting {name} is {value!r}, expected a {_KINDS[kind]}")
        low, high = _RANGES.get(name, (-math.inf, math.inf))
        usual = value == 0 and name in _ELSEWHERE
        if not isinstance(value, str) and not usual and not low <= value <= high:
            raise UsageError(f"setting {name} is {value}, expected {low:,g} to {high:,g}")
        checked[name] = value
    if checked.get("encoding_format", "float") not in ("float", "base64"):
        raise UsageError(
            f"encoding_format is {checked['encoding_format']!r}, expected float or base64"
        )
    return checked


_KINDS = {str: "text", int: "whole number", float: "number"}
