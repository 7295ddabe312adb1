"""Bring your own: any object with `encode(texts, role)`, named as `module:factory`."""

from __future__ import annotations

import importlib
import inspect
import re
import reprlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jfinteb.eval.backends.base import Embedded, EncoderOptions, TextEncoder
from jfinteb.eval.backends.faults import first_line
from jfinteb.eval.encoder import EncoderSpec, ModelError, Vectors
from jfinteb.loaders.errors import JfintebError, UsageError
from jfinteb.loaders.files import sha256_of
from jfinteb.loaders.task import Role

__all__ = ["CustomEncoder", "as_vectors", "is_factory", "refuse"]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_OPTIONS = (
    *("revision", "pooling", "layer", "special_tokens", "pool_prompt", "routes", "settings"),
    *("max_length", "dtype", "device", "batch_tokens", "trust_remote_code"),
)


def is_factory(model: str) -> bool:
    """Whether a model is named as code, and not as a folder or on the hub.

    >>> is_factory("my_model:make"), is_factory("org/my_model"), is_factory("./a:b")
    (True, False, False)
    """
    return _NAME.fullmatch(model) is not None and not Path(model).is_dir()


class CustomEncoder(TextEncoder):
    """The user's own object, imported from the current directory or from what is installed.

    What stands behind the colon is an object with `encode`, or is called without arguments to get
    one. `encode(texts, role)` is given at most 256 final strings and the role as plain text; it
    returns one vector a text, as an array, a tensor or lists. An object's `revision` names what it
    does; where it has none, the hash of its module's file stands in, and no vector is kept.
    """

    def __init__(self, options: EncoderOptions) -> None:
        refuse("custom", options, _OPTIONS)
        self._name = options.model
        if not is_factory(options.model):
            raise UsageError(
                f"the custom backend takes module:factory, found {options.model!r}; an example is "
                "my_model:make for `def make()` in my_model.py"
            )
        module, here = _imported(options.model)
        self._own = _made(options.model, module)
        self._revision = revision = _revision(options.model, self._own)
        super().__init__(
            EncoderSpec(
                model=options.model,
                revision=_hash(options.model, module) if revision is None else revision,
                backend="custom",
                pooling="none",
                prompts=options.prompts,
                routes={role.value: role.value for role in Role},  # encode(texts, role) sees it
                truncate_dim=options.dimensions_kept(),
                normalize=bool(options.normalize),
            )
        )
        self.cacheable = revision is not None
        self._dimensions = 0
        if here:
            self.notes.append(f"runs {module.__name__} of the current directory")
        if revision is None:
            self.notes.append(
                "the model has no revision: told by its module's file alone, and no vector is kept"
            )

    @property
    def dimensions(self) -> int:
        """Length of a vector, found out with one word."""
        self.load()
        return self._dimensions

    def load(self) -> None:
        """Encode one word, so that what is wrong shows before the first task."""
        if not self._dimensions:
            self._dimensions = self._called(["円"], Role.DOCUMENT).shape[1]
            self.check_dimensions()

    def embed(self, strings: Sequence[str], role: Role) -> Embedded:
        """What the object gives; it does not tell tokens, so none are counted."""
        vectors = self._called(list(strings), role)
        rows = len(strings)
        return Embedded(vectors, np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=bool))

    def _called(self, strings: list[str], role: Role) -> Vectors:
        try:
            found = self._own.encode(strings, role.value)
        except JfintebError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelError(f"{self._name}: encode raised {first_line(error)}") from error
        if _revision(self._name, self._own) != self._revision:
            raise _inconstant(self._name, self._revision, _revision(self._name, self._own))
        return as_vectors(found, len(strings), self._name, self._dimensions or None)


def refuse(backend: str, options: EncoderOptions, names: Sequence[str]) -> None:
    """Raise UsageError for the first option that is given and that a backend does not have."""
    defaults = EncoderOptions(model=options.model)
    for name in names:
        if getattr(options, name) != getattr(defaults, name):
            flag = name.replace("_", "-")
            raise UsageError(f"the {backend} backend has no {flag}; leave --{flag} out")


def as_vectors(found: object, rows: int, model: str, dimensions: int | None = None) -> Vectors:
    """Vectors as a backend must give them: float32, one row a text.

    Args:
        found: an array, a tensor on any device, or a sequence of either or of lists of numbers.
        rows: texts that were given.
        model: who is at fault.
        dimensions: length that a vector had before; None: any.

    Raises:
        ModelError: another number of rows, another length, or not real numbers.
    """
    try:
        array = _array(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"{model}: encode returned {type(found).__name__} that is no array of {rows} vectors "
            f"({first_line(error)})"
        ) from error
    if array.ndim != 2 or len(array) != rows or not array.shape[1]:
        raise ModelError(
            f"{model}: encode returned shape {array.shape} for {rows} texts, expected "
            f"({rows}, {dimensions or 'dimensions'})"
        )
    if array.dtype.kind not in "fiu":
        raise ModelError(f"{model}: encode returned {array.dtype}, expected real numbers")
    if dimensions is not None and array.shape[1] != dimensions:
        raise ModelError(
            f"{model}: encode returned vectors of length {array.shape[1]}, before {dimensions}"
        )
    with np.errstate(over="ignore"):  # what is too large is infinite, and told by the base class
        vectors: Vectors = array.astype(np.float32)
    return vectors


def _array(found: Any) -> Any:
    if hasattr(found, "detach"):
        found = found.detach().cpu()
        return (found.float() if found.is_floating_point() else found).numpy()
    if isinstance(found, (list, tuple)) and found and hasattr(found[0], "detach"):
        return np.stack([_array(each) for each in found])
    return np.asarray(found)


def _imported(model: str) -> tuple[Any, bool]:
    """The module, and whether it stands in the current directory."""
    name = model.split(":")[0]
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ModelError(
                f"no module {name!r} in the current directory, and none is installed; run where "
                f"{name.split('.')[0]}.py is, or install it"
            ) from error
        raise ModelError(f"{name} cannot be imported: {first_line(error)}") from error
    except (Exception, SystemExit) as error:  # a module may do anything when it is read
        raise ModelError(f"{name} cannot be imported: {first_line(error)}") from error
    finally:
        if added:  # what it imports later is found too, and hides nothing that is installed
            sys.path.remove(here)
            sys.path.append(here)
    file = getattr(module, "__file__", None)
    return module, file is not None and Path(here) in Path(file).resolve().parents


def _made(model: str, module: Any) -> Any:
    """The object with `encode`."""
    found = module
    for part in model.split(":")[1].split("."):
        if not hasattr(found, part):
            known = ", ".join(name for name in vars(module) if not name.startswith("_"))
            raise ModelError(f"{model}: {module.__name__} has no {part!r}; it has {known}")
        found = getattr(found, part)
    if isinstance(found, type) or not hasattr(found, "encode"):
        if not callable(found):
            raise ModelError(
                f"{model} is a {type(found).__name__}, expected a factory or an object"
            )
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise ModelError(f"{model} raised {first_line(error)}") from error
    encode = getattr(found, "encode", None)
    if not callable(encode):
        raise ModelError(f"{model} gave a {type(found).__name__} without encode(texts, role)")
    try:
        inspect.signature(encode).bind(["円"], "query")
    except ValueError:
        return found  # of compiled code, which does not tell
    except TypeError as error:
        raise ModelError(
            f"{model}: encode{inspect.signature(encode)} cannot take (texts, role): {error}"
        ) from error
    return found


def _revision(model: str, own: Any) -> str | None:
    """What the object says that it does; None where it does not say."""
    missing = object()
    try:
        inspect.getattr_static(own, "revision")
        there = True
    except AttributeError:
        there = False
    found = []
    for _ in range(2):
        try:
            found.append(own.revision if there else getattr(own, "revision", missing))
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"{model}: its revision raised {first_line(error)}; mend it"
            ) from error
    one, two = found
    if one is missing or (one is None and two is None):
        return None
    if not isinstance(one, str) or not one.strip() or not one.isprintable():
        raise ModelError(
            f"{model}: its revision is {reprlib.repr(one)}, expected a string in one line that "
            "names what it does, or None"
        )
    if one != two:
        raise _inconstant(model, one, two)
    return one


def _inconstant(model: str, one: object, two: object) -> ModelError:
    return ModelError(
        f"{model}: its revision was {reprlib.repr(one)}, then {reprlib.repr(two)}; expected one "
        "that stays while vectors do"
    )


def _hash(model: str, module: Any) -> str:
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        raise ModelError(f"{model}: {module.__name__} has no file; give its object a revision")
    return f"source-{sha256_of(Path(file))[:16]}"
