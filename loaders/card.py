"""Strict reading of a card's YAML front matter: every fault is one line that names file and key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import yaml

from jfinteb.loaders.errors import DataError

__all__ = ["CardReader", "read_front_matter"]

_FENCE = "---\n"


# libyaml's is ten times faster, and not in every build of PyYAML
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _NoDuplicates(_Loader):  # type: ignore[misc]
    """PyYAML keeps the last of two equal keys in silence; a card may not hold two."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused by PyYAML below
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


def read_front_matter(name: str, text: str) -> tuple[dict[str, Any], str]:
    """Split a card into its front matter and its body.

    Args:
        name: file name, for messages.
        text: the whole card.

    Raises:
        DataError: no front matter, or not a YAML mapping.
    """
    text = text.replace("\r\n", "\n")
    head, fence, body = text.removeprefix(_FENCE).partition("\n" + _FENCE)
    if not text.startswith(_FENCE) or not fence:
        raise DataError(
            f"{name}: no front matter; expected YAML between two '---' lines at the top"
        )
    try:
        front = yaml.load(head, Loader=_NoDuplicates)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2024-13-01
        raise DataError(f"{name}: front matter is not YAML: {error}") from error
    if not isinstance(front, dict):
        raise DataError(f"{name}: front matter is a {type(front).__name__}, expected a mapping")
    return front, body.strip() + "\n"


class CardReader:
    """Typed access to one mapping of a card; `finish` refuses keys that nothing has read."""

    def __init__(self, name: str, values: Mapping[str, Any], path: str = "") -> None:
        self.name = name
        self.values = values
        self._path = path
        self._read: set[str] = set()

    def section(self, key: str) -> CardReader:
        """Read the mapping under `key`."""
        value = self._take(key, dict, "a mapping")
        return CardReader(self.name, value, f"{self._path}{key}.")

    def optional_section(self, key: str) -> CardReader:
        """The mapping under a key; an empty one where the key is absent."""
        if key in self.values:
            return self.section(key)
        self._read.add(key)
        return CardReader(self.name, {}, f"{self._path}{key}.")

    def text(self, key: str) -> str:
        """Read text that is not empty."""
        value: str = self._take(key, str, "text (quote it)")
        self.expect(key, bool(value.strip()), "text that is not empty")
        return value

    def optional_text(self, key: str) -> str | None:
        """Read text, or None where the key is absent."""
        self._read.add(key)
        return self.text(key) if key in self.values else None

    def optional_count(self, key: str) -> int | None:
        """Read a whole number above 0, or None where the key is absent."""
        self._read.add(key)
        return self.count(key) if key in self.values else None

    def count(self, key: str) -> int:
        """A whole number above 0."""
        value = self._take(key, int, "a whole number")
        self.expect(key, not isinstance(value, bool) and value > 0, "a whole number above 0")
        return int(value)

    def flag(self, key: str) -> bool:
        """Read true or false."""
        return bool(self._take(key, bool, "true or false"))

    def optional_flag(self, key: str) -> bool:
        """Read true or false; false where the key is absent."""
        self._read.add(key)
        return self.flag(key) if key in self.values else False

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of text; an unquoted `no` or `1.0` is not text."""
        values = self._take(key, list, "a list of quoted text")
        for value in values:
            self.expect(key, isinstance(value, str), "a list of text (quote each)", value)
        return tuple(values)

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """Read one of the `allowed` words."""
        value = self.text(key)
        names = [str(choice) for choice in allowed]
        self.expect(key, value in names, " or ".join(names))
        return value

    def expect(self, key: str, holds: bool, expected: str, found: object = None) -> None:
        """Raise the one-line error about `key` unless the condition holds."""
        if not holds:
            shown = self.values.get(key) if found is None else found
            raise DataError(f"{self.name}: {self._path}{key}: found {shown!r}, expected {expected}")

    def expect_keys(self, expected: Iterable[str]) -> None:
        """Refuse other keys than these, or another order."""
        names = list(expected)
        if list(self.values) != names:
            found, where = list(self.values), self._path.rstrip(".")
            raise DataError(f"{self.name}: {where}: found keys {found}, expected {names}")

    def expect_known(self, known: Iterable[str]) -> None:
        """Refuse keys that are not among these."""
        names = sorted(known)
        unknown = [key for key in self.values if key not in names]
        if unknown:
            raise DataError(
                f"{self.name}: unknown key {self._path}{unknown[0]}; known here: {', '.join(names)}"
            )

    def finish(self) -> None:
        """Refuse keys that nothing has read."""
        self.expect_known(self._read)

    def _take(self, key: str, kind: type, expected: str) -> Any:
        self._read.add(key)
        if key not in self.values:
            raise DataError(f"{self.name}: {self._path}{key}: missing, expected {expected}")
        value = self.values[key]
        self.expect(key, isinstance(value, kind), expected)
        return value
