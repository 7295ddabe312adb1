"""Tiny models with random weights, one an architecture, made once a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder

OpenTiny: TypeAlias = Callable[..., TextEncoder]

SENTENCES = [
    "当社の2024年3月期の連結売上高は前年同期比で8.4%増加しました。",
    "原材料費の高騰により、営業利益は減少する見込みです。",
    "ROEは10%を超え、過去最高を更新した。",
    "(株)トヨタの子会社が新工場を建設する。",
    "来客数が減り、景気は悪い。",
    "為替差益を計上した。",
    "雇用情勢は改善している。求人倍率も上昇傾向にある。",
    "ガソリン価格の上昇が家計を圧迫している。",
    "税制改正の概要と実務への影響について解説する。",
    "金融庁は監督指針を改めた。",
    "半導体の需要は堅調に推移しており、先行きは明るい。",
    "配当は1株当たり50円とする。",
    "銀行の貸出残高は増えた。",
    "株価は下落した。",
    "円安が輸出企業の業績を押し上げる一方、輸入物価の上昇は中小企業の収益を圧迫している。",
    "Net sales rose 5% year on year.",
]
PROMPTED = ["2024年3月期", "ROEは10%", "(株)トヨタ"]
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def one_line(kind: type[Exception], action: Callable[[], object]) -> str:
    """The message of the error that an action must raise, which must be one line."""
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    return message


def _characters() -> list[str]:
    return sorted(set("".join([*SENTENCES, *PROMPTED, "query: passage: ", "ゝーabcXYZ"])) - {" "})


def _wrap(tokenizer: Tokenizer, **options: Any) -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def word_piece(**options: Any) -> Any:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *_characters(), *(f"##{c}" for c in _characters())]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    named = {f"{name}_token": token for name, token in names.items()}
    return _wrap(tokenizer, **named, **({"model_max_length": 512} | options))


def metaspace(template: str = "<s> $A </s>", **options: Any) -> Any:
    """Unigram pieces over "▁", as SentencePiece makes them: a space merges with what follows."""
    heads = ["▁query", ":", "▁passage", "▁2024", "年", "月期", "▁ROE", "▁R", "▁(", "▁"]
    pieces = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [(piece, -2.0) for piece in heads]
    pieces += [(c, -4.0) for c in _characters() if c not in heads]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    named = {**SPECIAL, "cls_token": "<s>", "sep_token": "</s>"}
    return _wrap(tokenizer, **named, **options)


def byte_level(**options: Any) -> Any:
    """Byte-level BPE without a template: nothing ends a text, as in LLaMA and GPT-2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return _wrap(tokenizer, **(SPECIAL | options))


_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}


def _bert() -> tuple[Any, Any]:
    tokenizer = word_piece()
    config = transformers.BertConfig(vocab_size=len(tokenizer), **_SMALL)
    return transformers.BertModel(config), tokenizer


def _xlm_roberta() -> tuple[Any, Any]:
    tokenizer = metaspace()  # no model_max_length: the positions alone limit it
    config = transformers.XLMRobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=514,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        **_SMALL,
    )
    return transformers.XLMRobertaModel(config), tokenizer


def _llama() -> tuple[Any, Any]:
    tokenizer = byte_level()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        num_key_value_heads=2,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        max_position_embeddings=512,
        **_SMALL,
    )
    return transformers.LlamaModel(config), tokenizer


def _gpt2() -> tuple[Any, Any]:
    tokenizer = byte_level(pad_token=None)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=512, eos_token_id=3
    )
    return transformers.GPT2Model(config), tokenizer


def _modernbert() -> tuple[Any, Any]:
    tokenizer = word_piece(model_max_length=8192)
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
        local_attention=16,
        **_SMALL,
    )
    return transformers.ModernBertModel(config), tokenizer


def _t5() -> tuple[Any, Any]:
    tokenizer = metaspace("$A </s>", model_max_length=512)
    config = transformers.T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return transformers.T5Model(config), tokenizer


_MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "bert": _bert,
    "xlm_roberta": _xlm_roberta,
    "llama": _llama,
    "gpt2": _gpt2,
    "modernbert": _modernbert,
    "t5": _t5,
}


@pytest.fixture(scope="session", autouse=True)
def one_thread_of_torch() -> None:
    """On models this small, threads cost more than they give."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Architecture -> folder of a model of two layers, 32 wide, weights far from zero."""
    root = tmp_path_factory.mktemp("tiny")
    folders = {}
    for name, make in _MAKERS.items():
        torch.manual_seed(len(name))
        model, tokenizer = make()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.dim() == 2 and "relative" not in key:
                    parameter.normal_(std=0.15)  # at 0.02 all texts would look the same
        folders[name] = root / name
        model.save_pretrained(folders[name], safe_serialization=True)
        tokenizer.save_pretrained(folders[name])
    return folders


@pytest.fixture(scope="session")
def open_tiny(tiny: dict[str, Path]) -> OpenTiny:
    """Open a tiny model by its architecture, or any folder, with options."""

    def opened(model: str | Path, **options: Any) -> TextEncoder:
        folder = tiny[model] if isinstance(model, str) else model
        return open_encoder(EncoderOptions(model=str(folder), **{"device": "cpu", **options}))

    return opened


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Texts of many lengths, all different."""
    return [f"{text} {n}" * (1 + n // 12) for n, text in enumerate(SENTENCES * 2)]


@pytest.fixture
def declare() -> Callable[..., Path]:
    """Write the files of sentence-transformers beside a model's weights."""

    def write(folder: Path, pooling: dict[str, Any], *modules: str, **general: Any) -> Path:
        kinds = ["Transformer", "Pooling", *modules]
        paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds[1:], start=1))]
        described = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ]
        files: dict[str, Any] = {"modules.json": described, "1_Pooling/config.json": pooling}
        files["config_sentence_transformers.json"] = general
        files["sentence_bert_config.json"] = {"max_seq_length": 128, "do_lower_case": False}
        for path in paths:
            (folder / path).mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        return folder

    return write
