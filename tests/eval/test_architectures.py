"""One stand-in a design of the paper and of newer models: the same classes and kind of tokenizer.

Each is run through tasks of the sample suite by the command line, and its vectors are compared with
what the bare model gives for one text at a time, without padding, from ids that were made by
sentencepiece or MeCab's tokenizer and not by our code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.backends.base import TextEncoder
from jfinteb.eval.cli import run_main
from jfinteb.loaders.errors import JfintebError

sentencepiece = pytest.importorskip("sentencepiece", reason="extra japanese")
CORPUS = [
    "当社の2024年3月期の連結売上高は前年同期比で8.4%増加しました。",
    "原材料費の高騰により、営業利益は減少する見込みです。ROEは10%を超え、過去最高を更新した。",
    "為替差益を計上した。雇用情勢は改善している。求人倍率も上昇傾向にある。来客数が減った。",
    "ガソリン価格の上昇が家計を圧迫している。金融庁は監督指針を改めた。株価は下落した。",
    "半導体の需要は堅調に推移しており、先行きは明るい。配当は1株当たり50円とする。",
    "円安が輸出企業の業績を押し上げる一方、輸入物価の上昇は中小企業の収益を圧迫している。",
]
WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {**WIDE, "intermediate_size": 48}
Array = np.ndarray[Any, Any]
Ids = Callable[[str], list[int]]
Made = tuple[Path, Ids]
Seen = list[tuple[list[str], str, Array]]


# --- making stand-ins -----------------------------------------------------------------------------


def pieces(folder: Path, name: str, **options: Any) -> Any:
    """A sentencepiece model in a folder; returns its processor."""
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_prefix=str(folder / "made"),
        **({"vocab_size": 400, "model_type": "unigram"} | options),
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    (folder / "made.vocab").unlink()
    (folder / "made.model").rename(folder / name)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / name))


def unigram_json(folder: Path, processor: Any, template: str, **config: Any) -> None:
    """The same model as a `tokenizer.json` whose class is said to be LlamaTokenizer."""
    known = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(len(processor))]
    tokenizer = Tokenizer(models.Unigram(known, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    write(
        folder / "tokenizer_config.json",
        tokenizer_class="LlamaTokenizer",
        model_max_length=512,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        **config,
    )


def write(path: Path, **content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def weigh(folder: Path, model: Any) -> None:
    """Save a model with weights far from zero, so that texts do not look the same."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.15)
    model.save_pretrained(folder)


def pooled_by(folder: Path, mode: str, *more: tuple[str, str]) -> None:
    """Declare modules as sentence-transformers writes them."""
    base = "sentence_transformers.models."
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), *more]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": base + kind}
        for i, (kind, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write(folder / "1_Pooling" / "config.json", embedding_dimension=32, pooling_mode=mode)


def bert_japanese(folder: Path, dictionary: str) -> Ids:
    """bert-base-japanese: MeCab's words, then word pieces."""
    pytest.importorskip("fugashi", reason="extra japanese")
    pytest.importorskip(dictionary, reason="extra japanese")
    folder.mkdir(parents=True)
    characters = sorted(set("".join(CORPUS)))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "売上", "増加", "為替", "営業", "企業"]
    vocabulary = [*words, *characters, *(f"##{c}" for c in characters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    write(
        folder / "tokenizer_config.json",
        tokenizer_class="BertJapaneseTokenizer",
        word_tokenizer_type="mecab",
        subword_tokenizer_type="wordpiece",
        mecab_kwargs={"mecab_dic": dictionary},
        do_lower_case=False,
        model_max_length=512,
    )
    weigh(
        folder, transformers.BertModel(transformers.BertConfig(vocab_size=len(vocabulary), **SMALL))
    )
    import fugashi

    module = __import__(dictionary)
    place = f'-d "{module.DICDIR}" -r "{Path(module.DICDIR) / "mecabrc"}"'
    if dictionary == "ipadic":
        place = module.MECAB_ARGS
    tagger = fugashi.GenericTagger(place)
    index = {word: i for i, word in enumerate(vocabulary)}

    def ids(text: str) -> list[int]:
        found = []
        for word in (str(node.surface) for node in tagger(unicodedata.normalize("NFKC", text))):
            found += word_pieces(word, index)
        return [2, *found, 3]

    return ids


def word_pieces(word: str, index: dict[str, int]) -> list[int]:
    """Longest first; a word that is not covered is unknown as a whole."""
    found, start = [], 0
    while start < len(word):
        head = "##" if start else ""
        ends = [end for end in range(len(word), start, -1) if head + word[start:end] in index]
        if not ends:
            return [1]
        found.append(index[head + word[start : ends[0]]])
        start = ends[0]
    return found


def ruri(folder: Path) -> Ids:
    """Ruri v3: ModernBERT with a unigram tokenizer in a LlamaTokenizer's clothes."""
    processor = pieces(folder, "tokenizer.model", pad_id=3, normalization_rule_name="identity")
    unigram_json(folder, processor, "<s> $A </s>", add_bos_token=True, add_eos_token=True)
    config = transformers.ModernBertConfig(
        vocab_size=len(processor),
        **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
        **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
        pad_token_id=3,
        local_attention=16,
        **SMALL,
    )
    weigh(folder, transformers.ModernBertModel(config))
    pooled_by(folder, "mean")
    return lambda text: [1, *processor.encode(text), 2]


def luke(folder: Path) -> Ids:
    """GLuCoSE v2: LUKE with mLUKE's tokenizer, whose ids stand one behind sentencepiece's."""
    processor = pieces(folder, "sentencepiece.bpe.model")
    write(folder / "tokenizer_config.json", tokenizer_class="MLukeTokenizer", model_max_length=512)
    names = ("[MASK]", "[UNK]", "[PAD]", "[MASK2]")
    write(folder / "entity_vocab.json", **{name: i for i, name in enumerate(names)})
    size = len(processor) + 4
    write(folder / "added_tokens.json", **{"<ent>": size - 2, "<ent2>": size - 1})
    config = transformers.LukeConfig(
        vocab_size=size,
        entity_vocab_size=4,
        entity_emb_size=16,
        max_position_embeddings=514,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        **SMALL,
    )
    weigh(folder, transformers.LukeModel(config))
    pooled_by(folder, "mean")
    return lambda text: [0, *(i + 1 if i else 3 for i in processor.encode(text)), 2]


def sarashina(folder: Path) -> Ids:
    """Sarashina-Embedding: Llama, unigram, the last token being an end that we must add."""
    processor = pieces(folder, "tokenizer.model", pad_id=3, normalization_rule_name="identity")
    unigram_json(folder, processor, "<s> $A", add_bos_token=True, add_eos_token=False)
    config = transformers.LlamaConfig(
        vocab_size=len(processor),
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
        max_position_embeddings=512,
        **SMALL,
    )
    weigh(folder, transformers.LlamaModel(config))
    pooled_by(folder, "lasttoken")
    return lambda text: [1, *processor.encode(text), 2]


def byte_level(folder: Path, template: str, **options: Any) -> Ids:
    """Byte-level BPE without merges: an id is a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<unk>", "<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=2048, **names, **options
    ).save_pretrained(folder)
    shown = bytes_shown()
    return lambda text: [vocabulary[shown[byte]] for byte in text.encode()]


def bytes_shown() -> dict[int, str]:
    """GPT-2's printable stand-in of every byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    shown = {byte: chr(byte) for byte in plain}
    return shown | {byte: chr(256 + n) for n, byte in enumerate(others)}


def qwen3(folder: Path) -> Ids:
    """Qwen3-Embedding: its tokenizer ends a text by itself and pads on the left."""
    inner = byte_level(folder, "$A </s>", padding_side="left")
    config = transformers.Qwen3Config(
        vocab_size=260,
        num_key_value_heads=2,
        head_dim=8,
        eos_token_id=3,
        pad_token_id=0,
        max_position_embeddings=2048,
        **SMALL,
    )
    weigh(folder, transformers.Qwen3Model(config))
    pooled_by(folder, "lasttoken")
    return lambda text: [*inner(text), 3]


def gemma3(folder: Path) -> Ids:
    """EmbeddingGemma's transformer: Gemma 3 that looks both ways."""
    inner = byte_level(folder, "<s> $A </s>")
    config = transformers.Gemma3TextConfig(
        vocab_size=260,
        num_key_value_heads=2,
        head_dim=8,
        use_bidirectional_attention=True,
        sliding_window=64,
        layer_types=["sliding_attention", "full_attention"],
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        max_position_embeddings=2048,
        **SMALL,
    )
    weigh(folder, transformers.Gemma3TextModel(config))
    pooled_by(folder, "mean")
    return lambda text: [2, *inner(text), 3]


MAKERS: dict[str, tuple[Callable[[Path], Ids], str]] = {
    "bert-japanese-ipadic": (lambda f: bert_japanese(f, "ipadic"), "mean"),
    "bert-japanese-unidic": (lambda f: bert_japanese(f, "unidic_lite"), "mean"),
    "ruri-v3": (ruri, "mean"),
    "glucose-v2": (luke, "mean"),
    "sarashina": (sarashina, "last"),
    "qwen3": (qwen3, "last"),
    "gemma3": (gemma3, "mean"),
}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """A design's folder, and the ids that its tokenizer should give."""
    made: dict[str, Made] = {}

    def get(name: str) -> Made:
        if name not in made:
            folder = tmp_path_factory.mktemp("designs") / name
            made[name] = (folder, MAKERS[name][0](folder))
        return made[name]

    return get


# --- running and comparing ------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Seen]]:
    """Score a model on two tasks by the command line; returns the vectors of every role."""

    def scored(folder: Path, *arguments: str) -> Seen:
        seen: Seen = []
        encode = TextEncoder.encode

        def spy(self: TextEncoder, texts: Sequence[str], role: Any) -> Any:
            vectors = encode(self, texts, role)
            seen.append((list(texts), str(role), np.array(vectors)))
            return vectors

        monkeypatch.setattr(TextEncoder, "encode", spy)
        out = tmp_path / "results"
        common = ["--suite", "sample", "--tasks", "ews_horizon,pfmt", "--device", "cpu"]
        code = run_main(["--model", str(folder), *common, *arguments, "--output", str(out)])
        assert code == 0
        assert len(list(out.rglob("pfmt.json"))) == 1
        return seen

    yield scored


def states(model: Any, ids: list[int], **more: Any) -> Array:
    """Last hidden states of one text alone."""
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), **more)
    found: Array = output.last_hidden_state[0].float().numpy()
    return found


def some(texts: Sequence[str]) -> list[int]:
    """Rows that are compared: the longest, the shortest and some between."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    return [*order[:: max(1, len(order) // 5)], order[-1]]


def cosine(a: Array, b: Array) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("name", MAKERS)
def test_a_design(name: str, stand_in: Callable[[str], Made], run: Callable[..., Seen]) -> None:
    folder, ids = stand_in(name)
    prompts = ["--query-prompt", "株価", "--document-prompt", "円安"]
    seen = run(folder, *prompts)
    assert {role for _, role, _ in seen} == {"query", "document", "classification"}
    model = transformers.AutoModel.from_pretrained(folder).eval()
    for texts, role, vectors in seen:
        prompt = {"query": "株価", "document": "円安"}.get(role, "")
        for row in some(texts):
            found = states(model, ids(prompt + texts[row])[:2048])
            expected = found[-1] if MAKERS[name][1] == "last" else found.mean(axis=0)
            assert np.abs(vectors[row] - expected).max() < 1e-4
            assert cosine(vectors[row], expected) > 1 - 1e-6


@pytest.mark.parametrize("name", ["ruri-v3", "sarashina", "glucose-v2"])
@pytest.mark.parametrize("backend", ["transformers", "sentence-transformers"])
def test_tokens_are_cut_as_the_files_say(
    name: str, backend: str, stand_in: Callable[[str], Made]
) -> None:
    """transformers 5 cuts these otherwise, and says nothing."""
    pytest.importorskip("sentence_transformers", reason="test extra")
    folder, ids = stand_in(name)
    encoder = open_encoder(EncoderOptions(model=str(folder), device="cpu", backend=backend))
    encoder.load()
    plain = transformers.AutoTokenizer.from_pretrained(folder)
    cut = [list(plain(text, add_special_tokens=False)["input_ids"]) for text in CORPUS]
    otherwise = cut != [ids(text)[1:-1] for text in CORPUS]
    assert otherwise is any("as the model's files say" in note for note in encoder.notes)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = [*CORPUS, "ｶﾞｿﾘﾝ価格" if name == "glucose-v2" else "価格"]
    end = -1 if backend == "sentence-transformers" and name == "sarashina" else None
    for text, vector in zip(texts, encoder.encode(texts, "query"), strict=True):
        # the library adds no end that a tokenizer does not add
        found = states(model, ids(text)[:end])
        expected = found[-1] if name == "sarashina" else found.mean(axis=0)
        assert np.abs(vector - expected).max() < 1e-4


def test_mteb_warns_where_tokens_are_cut_otherwise(
    stand_in: Callable[[str], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mteb", reason="extra mteb")
    from mteb.models.model_implementations import MODEL_REGISTRY
    from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper

    random = MODEL_REGISTRY["mteb/baseline-random-encoder"]
    for name in ("glucose-v2", "qwen3"):
        folder, ids = stand_in(name)

        def loader(
            model: str, revision: str | None, *, place: str = str(folder), **options: Any
        ) -> Any:
            return SentenceTransformerEncoderWrapper(place, **options)

        changes = {"name": f"tiny/{name}", "loader": loader, "modalities": ["text"]}
        monkeypatch.setitem(MODEL_REGISTRY, f"tiny/{name}", random.model_copy(update=changes))
        options: dict[str, Any] = {"device": "cpu", "backend": "mteb"}
        encoder = open_encoder(EncoderOptions(model=f"tiny/{name}", **options))
        encoder.load()
        plain = transformers.AutoTokenizer.from_pretrained(folder)
        otherwise = list(plain(CORPUS[0])["input_ids"]) != ids(CORPUS[0])
        assert otherwise is any("cuts texts otherwise" in note for note in encoder.notes)


def test_embeddinggemma_whole(tmp_path: Path, run: Callable[..., Seen]) -> None:
    """Two Dense layers and a Normalize after the pooling: chosen for sentence-transformers."""
    parts = pytest.importorskip("sentence_transformers.models", reason="test extra")
    folder = tmp_path / "whole"
    ids = gemma3(folder)
    more = [("Dense", "2_Dense"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize")]
    pooled_by(folder, "mean", *more)
    layers = []
    for (_, path), (inputs, outputs) in zip(more, [(32, 64), (64, 32)], strict=False):
        (folder / path).mkdir()
        identity = torch.nn.Identity()
        layer = parts.Dense(inputs, outputs, bias=False, activation_function=identity)
        layer.save(str(folder / path))
        layers.append(layer.linear.weight.detach().numpy())
    (folder / "4_Normalize").mkdir()
    model = transformers.AutoModel.from_pretrained(folder).eval()
    seen = run(folder, "--backend", "auto")
    for texts, _, vectors in seen:
        for row in some(texts):
            pooled = states(model, ids(texts[row])[:2048]).mean(axis=0)
            expected = layers[1] @ (layers[0] @ pooled)
            assert np.abs(vectors[row] - expected / np.linalg.norm(expected)).max() < 1e-5


# --- code of its own, with adapters ---------------------------------------------------------------

OWN_MODEL = '''
import torch
from transformers import BertConfig, BertModel, PreTrainedModel

class OwnConfig(BertConfig):
    model_type = "own_bert"
    def __init__(self, uses=("retrieval.query", "retrieval.passage", "classification"), **rest):
        super().__init__(**rest)
        self.uses = list(uses)

class OwnModel(PreTrainedModel):
    """A BERT whose states are turned by one matrix a use; by none without a mask."""
    config_class = OwnConfig
    base_model_prefix = "own"
    def __init__(self, config):
        super().__init__(config)
        self.inner = BertModel(config, add_pooling_layer=False)
        size = config.hidden_size
        self.adapters = torch.nn.Parameter(torch.zeros(len(config.uses), size, size))
        self.post_init()
    def forward(self, input_ids, attention_mask=None, adapter_mask=None, **rest):
        output = self.inner(input_ids, attention_mask=attention_mask)
        if adapter_mask is not None:
            turns = self.adapters[adapter_mask.long()]
            output.last_hidden_state = output.last_hidden_state @ turns
        return output
'''
OWN_MODULE = """
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

class Transformer(torch.nn.Module):
    def __init__(self, model_name_or_path, max_seq_length=None, model_args=None,
                 tokenizer_args=None, config_args=None, cache_dir=None, **rest):
        super().__init__()
        trust = {"trust_remote_code": True}
        self.config = AutoConfig.from_pretrained(model_name_or_path, **trust)
        self.auto_model = AutoModel.from_pretrained(model_name_or_path, **trust)
        self.tokenizer = AutoTokenizer.from_pretrained(model_name_or_path, **trust)
        self.max_seq_length = max_seq_length
    @classmethod
    def load(cls, path):
        return cls(path)
    def tokenize(self, texts, padding=True):
        return dict(self.tokenizer(list(texts), padding=padding, truncation=True,
                                   max_length=self.max_seq_length, return_tensors="pt"))
    def forward(self, features, task=None):
        mask = None
        if task is not None:
            if task not in self.config.uses:
                raise ValueError(f"no adapter {task!r}")
            mask = torch.full((len(features["input_ids"]),), self.config.uses.index(task))
        given = {k: features[k] for k in ("input_ids", "attention_mask")}
        states = self.auto_model(**given, adapter_mask=mask).last_hidden_state
        return {**features, "token_embeddings": states}
    def get_word_embedding_dimension(self):
        return self.config.hidden_size
"""
ROUTES = {
    "query": "retrieval.query",
    "document": "retrieval.passage",
    "classification": "classification",
}


@pytest.fixture
def with_adapters(tmp_path: Path) -> Made:
    """As jina-embeddings-v3: an own transformer and an own module that is given a task."""
    pytest.importorskip("sentence_transformers", reason="test extra")
    folder = tmp_path / "adapters"
    inner = byte_level(folder, "<s> $A </s>")
    (folder / "modeling_own.py").write_text(OWN_MODEL, encoding="utf-8")
    (folder / "custom_st.py").write_text(OWN_MODULE, encoding="utf-8")
    space: dict[str, Any] = {"__name__": "modeling_own"}
    exec(OWN_MODEL, space)
    config = space["OwnConfig"](
        vocab_size=260, max_position_embeddings=2048, pad_token_id=0, **SMALL
    )
    model = space["OwnModel"](config)
    with torch.no_grad():
        torch.manual_seed(1)
        model.adapters.normal_()
    weigh(folder, model)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    autos = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    write(folder / "config.json", **(written | {"auto_map": autos}))
    pooled_by(folder, "mean", ("Normalize", "2_Normalize"))
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules[0] |= {"type": "custom_st.Transformer", "kwargs": ["task"]}
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    write(folder / "sentence_bert_config.json", max_seq_length=2048, do_lower_case=False)
    return folder, lambda text: [2, *inner(text), 3]


def test_adapters_by_role(with_adapters: Made) -> None:
    folder, ids = with_adapters
    options: dict[str, Any] = {"device": "cpu", "backend": "auto", "trust_remote_code": True}
    encoder = open_encoder(EncoderOptions(model=str(folder), routes=ROUTES, **options))
    assert encoder.spec.backend == "sentence-transformers"
    assert encoder.spec.remote_code
    model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    uses = list(ROUTES.values())
    for role, use in [*ROUTES.items(), ("clustering", None)]:
        vectors = encoder.encode(CORPUS, role)
        for text, vector in zip(CORPUS, vectors, strict=True):
            mask = None if use is None else torch.tensor([uses.index(use)])
            pooled = states(model, ids(text), adapter_mask=mask).mean(axis=0)
            assert np.abs(vector - pooled / np.linalg.norm(pooled)).max() < 1e-5
    bare = open_encoder(EncoderOptions(model=str(folder), **options))
    assert any(
        note.startswith("warning: custom_st.Transformer takes a task") for note in bare.notes
    )
    assert bare.spec.digest != encoder.spec.digest


def test_own_code_is_asked_for_and_a_wrong_adapter_told(with_adapters: Made) -> None:
    folder, _ = with_adapters
    options: dict[str, Any] = {"device": "cpu", "backend": "auto"}
    with pytest.raises(JfintebError, match="brings its own code") as caught:
        open_encoder(EncoderOptions(model=str(folder), **options))
    assert "\n" not in str(caught.value)
    wrong = EncoderOptions(
        model=str(folder), trust_remote_code=True, routes={"query": "poetry"}, **options
    )
    with pytest.raises(JfintebError, match="no adapter 'poetry'") as caught:
        open_encoder(wrong).load()  # before the first task
    assert "\n" not in str(caught.value)


# --- packages that are missing --------------------------------------------------------------------

_BLOCKED = """
import importlib.machinery as machinery, sys
find, hidden = machinery.PathFinder.find_spec, sys.argv[1].split(",")
def blocked(name, path=None, target=None):
    return None if name.split(".")[0] in hidden else find(name, path, target)
machinery.PathFinder.find_spec = staticmethod(blocked)
from jfinteb.eval.cli import run_main
sys.exit(run_main(sys.argv[2:]))
"""


def without(package: str, folder: Path, out: Path, *arguments: str) -> str:
    """The one line of a run in a Python that lacks a package."""
    common = ["--model", str(folder), "--suite", "sample", "--output", str(out), *arguments]
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, package, *common],
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert done.returncode == 2, done.stderr
    assert not out.exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    return line


@pytest.mark.parametrize(
    ("design", "package"),
    [
        ("bert-japanese-ipadic", "fugashi"),
        ("bert-japanese-ipadic", "ipadic"),
        ("bert-japanese-unidic", "unidic_lite"),
        ("glucose-v2", "sentencepiece"),
    ],
)
def test_a_missing_package_is_named(
    design: str, package: str, stand_in: Callable[[str], Made], tmp_path: Path
) -> None:
    line = without(package, stand_in(design)[0], tmp_path / "out")
    assert package in line
    assert "pip install 'jfinteb[japanese]'" in line


def test_a_package_of_the_models_own_code(with_adapters: Made, tmp_path: Path) -> None:
    folder, _ = with_adapters
    code = (folder / "modeling_own.py").read_text(encoding="utf-8")
    (folder / "modeling_own.py").write_text("import einops\n" + code, encoding="utf-8")
    line = without("einops", folder, tmp_path / "out", "--trust-remote-code", "--backend", "auto")
    assert "einops" in line and "pip install einops" in line
