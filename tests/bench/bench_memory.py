"""How much memory a run takes: the peak of a process that encodes many short texts.

    python tests/bench/bench_memory.py --texts 1000000

A stand-in model of two narrow layers, made here, so that the texts weigh more than the model. The
corpus of vectors lies in a file, mapped to memory, whose pages count too while there is room.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.cache import DiskStore

_WORDS = ("円安", "円高", "株価", "景気", "売上", "利益", "増加", "減少", "見込み", "輸出")


def stand_in(folder: Path) -> None:
    """A BERT of two layers, 64 wide, whose tokens are characters."""
    characters = sorted(set("".join(_WORDS) + "0123456789がはの。"))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {piece: i for i, piece in enumerate([*special, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    wrapped.save_pretrained(folder)


def texts(count: int) -> list[str]:
    """Different short texts."""
    n = len(_WORDS)
    return [
        f"{_WORDS[i % n]}が{_WORDS[i // n % n]}の{_WORDS[i // n**2 % n]}{i}" for i in range(count)
    ]


def measure(count: int, work: Path, cached: bool) -> dict[str, float]:
    """Encode in this process."""
    encoder = open_encoder(EncoderOptions(model=str(work / "model"), device="cpu"))
    encoder.load()
    encoder.encode(texts(64), "document")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    corpus: Sequence[str] = texts(count)
    if cached:
        encoder.store = DiskStore(work / "cache", encoder.spec, encoder.environment)
    start = time.perf_counter()
    vectors = encoder.encode(corpus, "document")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "texts": count,
        "seconds": seconds,
        "texts_per_second": count / seconds,
        "before_mb": before / 1e3,
        "peak_mb": peak / 1e3,
        "beyond_mb": (peak - before) / 1e3,
        "vectors_mb": vectors.nbytes / 1e6,
    }


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--cached", action="store_true", help="keep the vectors on disk as well")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stand_in(Path(name) / "model")
        found = measure(args.texts, Path(name), args.cached)
    print(json.dumps(found, indent=2))
    if args.out:
        args.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
