"""What counts the tokens of a text: tiktoken, a tokenizer.json, or a number of characters.

Names of special tokens that stand in a text, such as <|endoftext|>, are text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from jfinteb.loaders.errors import UnavailableError, UsageError

__all__ = ["Characters", "LocalFile", "Tiktoken", "TokenCounter", "open_counter"]

_OPENAI = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
_HINT = "`chars:N` (N characters a token), or the folder of a tokenizer.json"


class TokenCounter(Protocol):
    """What counts and cuts."""

    @property
    def name(self) -> str:
        """Name that tells two counters apart which cut differently."""
        ...

    @property
    def exact(self) -> bool:
        """Whether these are the server's own tokens, if the user named the right tokenizer."""
        ...

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens of each text, special tokens included."""
        ...

    def covered(self, text: str, limit: int) -> int:
        """How many characters of the text its first `limit` tokens cover wholly."""
        ...


@dataclass(frozen=True, slots=True)
class Characters:
    """No tokenizer: a fixed number of characters is taken for a token."""

    per_token: float

    @property
    def name(self) -> str:
        """`chars:N`."""
        return f"chars:{self.per_token:g}"

    @property
    def exact(self) -> bool:
        """Never."""
        return False

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Characters over characters a token, rounded up."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        counts: npt.NDArray[np.int64] = np.ceil(lengths / self.per_token).astype(np.int64)
        return counts

    def covered(self, text: str, limit: int) -> int:
        """Tokens times characters a token, rounded down."""
        return min(len(text), int(limit * self.per_token))


@dataclass(frozen=True, slots=True)
class Tiktoken:
    """An encoding of the tiktoken library, which OpenAI's models use."""

    encoding: Any

    @property
    def name(self) -> str:
        """`tiktoken:` and the encoding."""
        return f"tiktoken:{self.encoding.name}"

    @property
    def exact(self) -> bool:
        """Always."""
        return True

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens, names of special tokens taken as text."""
        return np.array([len(self.encoding.encode_ordinary(t)) for t in texts], dtype=np.int64)

    def covered(self, text: str, limit: int) -> int:
        """Characters whose bytes are all in the first tokens."""
        head = self.encoding.decode_bytes(self.encoding.encode_ordinary(text)[:limit])
        return len(head.decode("utf-8", "ignore"))  # only its end can be half a character


class LocalFile:
    """A `tokenizer.json`, as models on the hub have; special tokens around a text count."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        try:
            data = path.read_bytes()
            self._tokenizer = Tokenizer.from_str(data.decode("utf-8"))
        except Exception as error:  # the library raises bare Exception
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"cannot read tokenizer {path}: {reason}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._added = self._tokenizer.num_special_tokens_to_add(False)
        self.name = f"tokenizer.json:{hashlib.sha256(data).hexdigest()[:16]}"
        self.exact = True

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens, special tokens included."""
        return np.array([len(e) for e in self._tokenizer.encode_batch(list(texts))], dtype=np.int64)

    def covered(self, text: str, limit: int) -> int:
        """Characters before the first token that is left out, and not beyond the last kept one."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        room = limit - self._added
        if room <= 0:
            return 0
        if room >= len(offsets):
            return len(text)
        return int(min(offsets[room - 1][1], offsets[room][0]))


def open_counter(asked: str, model: str, *, at_openai: bool) -> TokenCounter:
    """The counter that the setting `tokenizer` names.

    Args:
        asked: `auto` (tiktoken for OpenAI's models, else `chars:1`), `tiktoken`,
            `tiktoken:ENCODING`, `chars:N`, or a tokenizer.json or the folder that holds one.
        model: name of the model.
        at_openai: whether the server is OpenAI's or Azure's.

    Raises:
        UsageError: no such tokenizer.
        UnavailableError: tiktoken or its file cannot be had.
    """
    kind, _, rest = asked.partition(":")
    name = model.removeprefix("openai/")
    if asked == "auto":
        return _tiktoken("", name) if at_openai or name in _OPENAI else Characters(1.0)
    if kind == "tiktoken":
        return _tiktoken(rest, name)
    if kind == "chars":
        try:
            per_token = float(rest or 1)
        except ValueError:
            per_token = 0.0
        if not 0.1 <= per_token <= 100:
            raise UsageError(f"tokenizer is {asked!r}, expected chars:N with N from 0.1 to 100")
        return Characters(per_token)
    path = Path(asked).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(f"no tokenizer {asked!r}; expected auto, tiktoken[:ENCODING], {_HINT}")
    return LocalFile(path)


def _tiktoken(encoding: str, model: str) -> Tiktoken:
    try:
        import tiktoken
    except ImportError:
        raise UnavailableError(
            f"tokens of {model} are counted with tiktoken; pip install 'jfinteb[api]', or give "
            f"the tokenizer {_HINT}"
        ) from None
    try:
        named = encoding or tiktoken.encoding_name_for_model(model)
        return Tiktoken(tiktoken.get_encoding(named))
    except (KeyError, ValueError):
        what = f"encoding {encoding!r}" if encoding else f"encoding for the model {model!r}"
        raise UsageError(
            f"tiktoken knows no {what}; give the tokenizer tiktoken:ENCODING, {_HINT}"
        ) from None
    except OSError:  # what requests raises is one
        raise UnavailableError(
            f"tiktoken cannot download its file of {named} and has no copy; connect, let "
            f"TIKTOKEN_CACHE_DIR name a folder with a copy, or give the tokenizer {_HINT}"
        ) from None
