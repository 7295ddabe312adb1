"""A tokenizer as its makers saved it, also where the installed transformers opens it otherwise.

transformers 5 builds some tokenizers anew from parts of their files. A `LlamaTokenizer` whose
`tokenizer.json` holds a unigram model becomes a BPE that cuts Japanese nearly into characters, and
an `MLukeTokenizer` loses the offset of its ids and its normalisation; nothing is said, and the
vectors are of other texts. transformers 4 takes the files as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import transformers
from tokenizers import Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast, XLMRobertaTokenizer

from jfinteb.eval.backends.model_files import ModelFiles
from jfinteb.eval.encoder import ModelError

__all__ = ["as_saved"]

_PROBES = (
    "為替差益を計上した。",
    "当社の2024年3月期の連結売上高は前年同期比で8.4%増加しました。",
    "原材料費の高騰により、ROEは10%を下回る見込みです。",
)


def as_saved(tokenizer: Any, files: ModelFiles, common: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The tokenizer, or one that keeps to the files, and a note that says so.

    Args:
        tokenizer: as `AutoTokenizer` opened it.
        files: of the model.
        common: what `from_pretrained` is given beside the place.

    Raises:
        ModelError: the files are not kept to, and cannot be.
    """
    if not (getattr(tokenizer, "is_fast", False) and _of_transformers(tokenizer)):
        return tokenizer, []
    saved = files.local("tokenizer.json")
    if saved is not None:
        raw = Tokenizer.from_file(str(saved))
        if _agree(tokenizer, raw):
            return tokenizer, []
        mended = PreTrainedTokenizerFast.from_pretrained(files.location, **common)
        if not _agree(mended, raw):
            raise ModelError(
                f"{files.name}: transformers {transformers.__version__} does not cut texts as "
                "tokenizer.json says; pip install 'transformers<5'"
            )
    elif type(tokenizer).__name__ == "MLukeTokenizer" and tokenizer.bos_token_id != 0:
        # mLUKE's ids are XLM-RoBERTa's scheme: of a sentencepiece file, moved by one
        mended = XLMRobertaTokenizer.from_pretrained(files.location, **common)
        backend = mended.backend_tokenizer
        # sentencepiece composes ｶ and ﾞ before it looks them up
        steps = [normalizers.NFKC(), *filter(None, [backend.normalizer])]
        backend.normalizer = normalizers.Sequence(steps)
    else:
        return tokenizer, _pieces_differ(tokenizer, files)
    note = (
        f"tokens as the model's files say; transformers {transformers.__version__} cuts otherwise "
        f"({type(tokenizer).__name__})"
    )
    return mended, [note]


def _pieces_differ(tokenizer: Any, files: ModelFiles) -> list[str]:
    """A warning where a sentencepiece file alone says otherwise, and nothing stands in for it."""
    model = files.local("tokenizer.model")
    if model is None or find_spec("sentencepiece") is None:
        return []
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    if all(tokenizer.tokenize(t) == processor.encode(t, out_type=str) for t in _PROBES):
        return []
    return [
        f"warning: transformers {transformers.__version__} cuts texts unlike tokenizer.model "
        f"({type(tokenizer).__name__}); pip install 'transformers<5', or give a tokenizer.json"
    ]


def _of_transformers(tokenizer: Any) -> bool:
    return type(tokenizer).__module__.startswith("transformers.")


def _agree(tokenizer: Any, raw: Tokenizer) -> bool:
    return all(
        list(tokenizer(text, add_special_tokens=False)["input_ids"]) == _ids(raw, text)
        for text in _PROBES
    )


def _ids(raw: Tokenizer, text: str) -> list[int]:
    raw.no_truncation()
    raw.no_padding()
    return [int(i) for i in raw.encode(text, add_special_tokens=False).ids]
