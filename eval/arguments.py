"""The options of `jfinteb run`, and what they say of the model."""

from __future__ import annotations

import argparse
from pathlib import Path

from jfinteb.eval.backends import BACKENDS, EncoderOptions
from jfinteb.eval.models import Preset
from jfinteb.eval.presets import apply, find_preset, get_preset
from jfinteb.loaders.cli import names
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role, suites

__all__ = ["add_run_options", "chosen_preset", "model_options"]

_OF_MODEL = (
    "backend",
    "revision",
    "pooling",
    "layer",
    "special_tokens",
    "pool_prompt",
    "max_length",
    "normalize",
    "dtype",
    "device",
    "workers",
    "batch_tokens",
    "trust_remote_code",
)
_OF_API = ("base_url", "concurrency", "price")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Everything that `jfinteb run` takes; what is not given is None."""
    onoff = argparse.BooleanOptionalAction
    parser.add_argument(
        "--model",
        required=True,
        help="hub id, preset, model folder, module:factory, or 'lexical' (the baseline)",
    )
    what = parser.add_argument_group("what to run")
    what.add_argument("--suite", metavar="NAME", help=f"{', '.join(suites())}; default jfinteb")
    what.add_argument(
        "--tasks", type=names, nargs="+", metavar="A,B", help="only these tasks, of any suite"
    )
    what.add_argument(
        "--data",
        metavar="DATA",
        help="package folder, hub repository[@revision] or 'sample'; default: the hub's",
    )
    what.add_argument(
        "--output",
        type=Path,
        default=Path("results"),
        metavar="RESULTS",
        help="folder of all results; default results",
    )
    what.add_argument("--seed", type=_seed, default=0, help="first seed of clustering; default 0")
    what.add_argument("--dry-run", action="store_true", help="show what would run, and stop")
    what.add_argument("--debug", action="store_true", help="show where an unexpected error arose")

    how = parser.add_argument_group("how the model is used; all of it stands in the result")
    how.add_argument(
        "--preset", metavar="NAME", help="of `jfinteb models`, or a TOML file; default: by --model"
    )
    how.add_argument("--no-preset", action="store_true", help="take nothing from a preset")
    how.add_argument("--backend", help=f"{', '.join(BACKENDS)}; default: by --model")
    how.add_argument("--revision", help="hub branch, tag or commit of the model")
    how.add_argument(
        "--pooling",
        help="mean cls last max weighted_mean mean_sqrt_len first_last_avg, several joined by +, "
        "or auto: the model's own; default auto",
    )
    how.add_argument(
        "--compare-poolings",
        type=names,
        metavar="A,B",
        help="encode once and score each of several poolings",
    )
    how.add_argument("--layer", type=int, help="hidden layer to pool; default -1")
    how.add_argument("--special-tokens", action=onoff, help="special tokens in the pool")
    how.add_argument("--pool-prompt", action=onoff, help="the prompt's tokens in the pool")
    how.add_argument("--query-prompt", metavar="TEXT", help="before every retrieval query")
    how.add_argument("--document-prompt", metavar="TEXT", help="before every document")
    how.add_argument(
        "--prompt", metavar="TEXT", help="before the texts of classification and clustering"
    )
    how.add_argument("--classification-prompt", metavar="TEXT", help="instead of --prompt, there")
    how.add_argument("--clustering-prompt", metavar="TEXT", help="instead of --prompt, there")
    how.add_argument("--max-length", type=int, metavar="N", help="tokens; never above the model's")
    how.add_argument(
        "--truncate-dim",
        type=_dims,
        metavar="N,N",
        help="keep the first N dimensions; all,256,128 scores each without encoding again; "
        "default: what the model declares, else all",
    )
    how.add_argument("--normalize", action=onoff, help="scale vectors to length 1")
    how.add_argument("--dtype", help="float32, bfloat16, float16 or auto")
    how.add_argument(
        "--route",
        type=_pair,
        action="append",
        metavar="ROLE=NAME",
        help="the model's own adapter or path for texts of a role",
    )
    how.add_argument(
        "--setting",
        type=_setting,
        action="append",
        metavar="NAME=VALUE",
        help="what else the backend should know; see the backend's page",
    )
    how.add_argument("--device", help="auto, cpu, cuda[:n], mps, or several: a,b")
    how.add_argument("--workers", type=int, metavar="N", help="processes a device; default 1")
    how.add_argument("--batch-tokens", type=int, metavar="N", help="tokens in the model at once")
    how.add_argument(
        "--trust-remote-code",
        action="store_true",
        default=None,
        help="run code that the model's repository holds",
    )
    how.add_argument(
        "--precision",
        type=names,
        metavar="A,B",
        help="float32, int8, binary: finished vectors rounded; several score each; default float32",
    )
    api = parser.add_argument_group(
        "an endpoint; keys come from the environment, see docs/endpoints.md"
    )
    api.add_argument(
        "--base-url", metavar="URL", help="root of its interface; makes the backend api"
    )
    api.add_argument("--concurrency", type=int, metavar="N", help="requests at once; default 4")
    api.add_argument("--price", type=float, metavar="P", help="of a million tokens")
    kept = parser.add_argument_group("vectors that are kept; a rerun encodes only what is missing")
    kept.add_argument(
        "--cache", type=Path, metavar="DIR", help="default: JFINTEB_CACHE, or the user's cache"
    )
    kept.add_argument("--no-cache", action="store_true", help="keep no vectors and use none")


def _dims(text: str) -> tuple[int | None, ...]:
    try:
        found = [None if name == "all" else int(name) for name in names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected whole numbers or all, such as all,256"
        ) from None
    wrong = next((n for n in found if n is not None and n < 1), None)
    if wrong is not None:
        raise argparse.ArgumentTypeError(f"truncate-dim is {wrong}, expected above 0, or all")
    return tuple(dict.fromkeys(found))


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"found {value}, expected 0 to {2**31 - 1}")
    return value


def _prompts(args: argparse.Namespace) -> dict[str, str]:
    given = {
        Role.QUERY: args.query_prompt,
        Role.DOCUMENT: args.document_prompt,
        Role.CLASSIFICATION: _first(args.classification_prompt, args.prompt),
        Role.CLUSTERING: _first(args.clustering_prompt, args.prompt),
    }
    return {role.value: text for role, text in given.items() if text is not None}


def _first(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)


def chosen_preset(args: argparse.Namespace) -> Preset | None:
    """The preset that was named, or that the model's name finds.

    Raises:
        UsageError: no such preset; or one together with `--no-preset`.
    """
    if args.no_preset:
        if args.preset is not None:
            raise UsageError("--preset with --no-preset; leave one out")
        return None
    return get_preset(args.preset) if args.preset is not None else find_preset(args.model)


def model_options(args: argparse.Namespace, preset: Preset | None) -> EncoderOptions:
    """What was said of the model; the rest is left to its preset, then to the model itself.

    Raises:
        UsageError: an option that cannot be read, or remote code that was not allowed.
    """
    given = {name: value for name in _OF_MODEL if (value := getattr(args, name)) is not None}
    if args.truncate_dim is not None and len(args.truncate_dim) == 1:
        given["truncate_dim"] = args.truncate_dim[0] or 0  # all of them, whatever is declared
    api = {name: value for name in _OF_API if (value := getattr(args, name)) is not None}
    if args.base_url is not None:
        given.setdefault("backend", "api")
    options = EncoderOptions(
        model=args.model,
        prompts=_prompts(args),
        routes=dict(args.route or ()),
        settings=dict(args.setting or ()) | api,
        **({"backend": "auto"} | given),
    )
    if preset is None:
        return options
    if preset.remote_code and not args.trust_remote_code:
        raise UsageError(
            f"{preset.id} brings its own code, which is not run unasked; read it, then give "
            "--trust-remote-code"
        )
    return apply(preset, options, set(given))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected NAME=VALUE")
    return name, value


def _setting(text: str) -> tuple[str, str | int | float | bool]:
    """A setting; whole numbers, decimal numbers, true and false are read as such."""
    name, value = _pair(text)
    if value in ("true", "false"):
        return name, value == "true"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
