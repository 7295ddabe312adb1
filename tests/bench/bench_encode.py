"""How fast texts are encoded, beside sentence-transformers on the same weights in the same run.

    python tests/bench/bench_encode.py --model FOLDER
    python tests/bench/bench_encode.py --model FOLDER --backends transformers,openvino --rounds 7

In every round each way of encoding takes its turn on the same texts, and ratios are medians of the
rounds' ratios. The limit is the rate of the model's own matrix products alone, measured between
the turns; the share of it is what the products of tokens that are no padding would take at that
rate. Texts are synthetic, of the lengths of the real sets, or the real sets themselves where
JFINTEB_DATA names their folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder

# characters of a text: deciles of the real sets (Economy Watchers Survey; Wikinews)
LENGTHS = {
    "short": (10, 22, 31, 37, 43, 51, 60, 69, 81, 102, 292),
    "long": (120, 274, 341, 412, 469, 551, 625, 702, 802, 1037, 2914),
}
_FILES = {
    "short": "published/economy-watchers-survey/domain/test.jsonl",
    "long": "published/wikinews/retrieval/docs.jsonl",
}
Encode = Callable[[Sequence[str]], Any]


def real_texts(folder: Path, name: str, count: int) -> list[str]:
    """A fixed choice of real texts."""
    lines = (folder / _FILES[name]).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = sorted({row["text"] for row in rows if row["text"].strip()})
    return random.Random(0).sample(texts, count)


def synthetic_texts(name: str, count: int, tokenizer: Any) -> list[str]:
    """Texts of the tokenizer's own Japanese pieces, as long as the real ones."""
    chance = random.Random(0)
    pieces = [p.strip("▁#") for p in tokenizer.get_vocab()]
    pieces = sorted(p for p in pieces if p and all("\u3040" <= c <= "\u9fff" for c in p))
    found = []
    for i in range(count):
        at = (i + 0.5) / count * 10
        low, high = LENGTHS[name][int(at)], LENGTHS[name][int(at) + 1]
        length = int(low + (high - low) * (at % 1))
        text = ""
        while len(text) < length:
            text += chance.choice(pieces)
        found.append(text[:length])
    chance.shuffle(found)
    return found


def products(model: torch.nn.Module) -> list[tuple[int, int]]:
    """Shapes (in, out) of the model's linear layers, without the pooler."""
    return [
        (module.in_features, module.out_features)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and "pooler" not in name
    ]


def operations(shapes: Sequence[tuple[int, int]], config: Any, lengths: Sequence[int]) -> float:
    """Floating-point operations of a model's matrix products, attention's included.

    Args:
        shapes: of the linear layers.
        config: of the model.
        lengths: tokens of each text.
    """
    linear = sum(2 * width * out for width, out in shapes) * sum(lengths)
    pairs = sum(length**2 for length in lengths)
    return float(linear + 4 * config.hidden_size * config.num_hidden_layers * pairs)


def limit_of(shapes: Sequence[tuple[int, int]], dtype: torch.dtype, seconds: float = 1.0) -> float:
    """Operations a second of the model's linear layers alone, over some time, not at their best.

    What else a machine does slows this as much as it slows the encoders measured beside it.
    """
    rows = 2048
    operands = [
        (torch.randn(rows, width, dtype=dtype), torch.randn(out, width, dtype=dtype))
        for width, out in dict.fromkeys(shapes)
    ]
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for left, right in operands:
            torch.nn.functional.linear(left, right)
            done += 2 * rows * right.numel()
    return done / (time.perf_counter() - start)


def seconds_of(encode: Encode, texts: Sequence[str]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    encode(texts)
    return time.perf_counter() - start


def measure(
    ways: Mapping[str, Encode], texts: Sequence[str], rounds: int, limit: Callable[[], float]
) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds of every way in every round, and the limit in every round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    limits = []
    for number in range(rounds + 1):
        names = list(ways) if number % 2 else list(ways)[::-1]
        rates = [limit()]
        for name in names:
            took = seconds_of(ways[name], texts)
            rates.append(limit())
            if number:  # the first round warms up
                found[name].append(took)
        if number:
            limits.append(statistics.fmean(rates))
    return found, limits


def ours(encoder: TextEncoder) -> Encode:
    """Our encoder as a function."""
    return lambda texts: encoder.encode(texts, "query")


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=os.environ.get("JFINTEB_MODEL"), help="a model folder")
    parser.add_argument("--backends", default="transformers", help="of ours, comma-separated")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--budgets", default="", help="batch-tokens to compare, comma-separated")
    parser.add_argument("--workers", type=int, default=1, help="processes, as one more way")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", type=int, default=384, help="texts")
    parser.add_argument("--long", type=int, default=64, help="texts")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if not args.model:
        parser.error("give --model, or name a folder in JFINTEB_MODEL")
    from sentence_transformers import SentenceTransformer

    dtype = getattr(torch, args.dtype)
    theirs = SentenceTransformer(args.model, device="cpu", model_kwargs={"dtype": dtype})
    ways: dict[str, Encode] = {
        "sentence-transformers": lambda texts: theirs.encode(
            list(texts), batch_size=32, show_progress_bar=False
        )
    }
    encoders = {}
    for backend in args.backends.split(","):
        for budget in args.budgets.split(",") if args.budgets else [""]:
            options: dict[str, Any] = {"batch_tokens": int(budget)} if budget else {}
            encoder = open_encoder(
                EncoderOptions(
                    model=args.model, backend=backend, dtype=args.dtype, device="cpu", **options
                )
            )
            encoder.load()
            encoders[f"{backend} {budget}".strip()] = encoder
            ways[f"{backend} {budget}".strip()] = ours(encoder)
    if args.workers > 1:
        several = open_encoder(
            EncoderOptions(model=args.model, dtype=args.dtype, device="cpu", workers=args.workers)
        )
        several.load()
        encoders["processes"] = several
        ways[f"transformers, {args.workers} processes"] = ours(several)
    shapes = products(theirs[0].auto_model)
    report: dict[str, Any] = {
        "model": Path(args.model).name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": args.dtype,
        "rounds": args.rounds,
        "sets": {},
    }
    console = Console(width=120)
    for name, count in (("short", args.short), ("long", args.long)):
        data = os.environ.get("JFINTEB_DATA")
        texts = (
            real_texts(Path(data), name, count)
            if data
            else synthetic_texts(name, count, theirs.tokenizer)
        )
        lengths = [min(len(i), 512) for i in theirs.tokenizer(texts)["input_ids"]]
        needed = operations(shapes, theirs[0].auto_model.config, lengths)
        found, limits = measure(ways, texts, args.rounds, lambda: limit_of(shapes, dtype))
        base = found["sentence-transformers"]
        reference = np.asarray(ways["sentence-transformers"](texts), dtype=np.float32)
        table = Table(
            title=f"{name}: {count} {'real' if data else 'synthetic'} texts, {sum(lengths)} tokens"
        )
        for head in ("", "tokens/s", "share of limit", "ratio", "rounds", "cosine >="):
            table.add_column(head, justify="right" if head else "left")
        rows = {}
        for way, seconds in found.items():
            ratios = sorted(b / s for b, s in zip(base, seconds, strict=True))
            shares = [needed / s / top for s, top in zip(seconds, limits, strict=True)]
            vectors = np.asarray(ways[way](texts), dtype=np.float64)
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            cosine = (unit * (reference / np.linalg.norm(reference, axis=1, keepdims=True))).sum(1)
            rows[way] = {
                "tokens_per_second": sum(lengths) / statistics.median(seconds),
                "share_of_limit": statistics.median(shares),
                "ratio": statistics.median(ratios),
                "ratios": ratios,
                "seconds": seconds,
                "least_cosine": float(cosine.min()),
                "largest_difference": float(np.abs(vectors - reference).max()),
            }
            table.add_row(
                way,
                f"{rows[way]['tokens_per_second']:,.0f}",
                f"{rows[way]['share_of_limit']:.0%}",
                f"{rows[way]['ratio']:.2f}",
                f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
                f"{cosine.min():.7f}",
            )
        report["sets"][name] = {
            "texts": count,
            "tokens": sum(lengths),
            "ways": rows,
            "limit_gflops": statistics.median(limits) / 1e9,
        }
        console.print(table)
    for encoder in encoders.values():
        encoder.close()
    if args.out:
        args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
