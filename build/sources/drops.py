"""What a parser of dumps left out, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["DropReport", "Dropped"]

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Dropped:
    """A page that is left out."""

    title: str
    reason: str


@dataclass(slots=True)
class DropReport:
    """Counts of the pages left out, a reason with its first titles; prints as a table.

    Attributes:
        pages: pages that the dump holds, wanted or not.

    >>> report = DropReport(pages=9)
    >>> report.add([Dropped("みほん", "redirect"), Dropped("例", "redirect")])
    >>> print(report)
    9 pages read, 2 left out
    2  redirect: みほん, 例
    """

    pages: int = 0
    _titles: dict[str, list[str]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, dropped: Iterable[Dropped]) -> None:
        """Count pages."""
        for page in dropped:
            self._counts[page.reason] = self._counts.get(page.reason, 0) + 1
            titles = self._titles.setdefault(page.reason, [])
            if len(titles) < _EXAMPLES:
                titles.append(page.title)

    @property
    def counts(self) -> Mapping[str, int]:
        """Pages a reason, the most frequent first."""
        return dict(sorted(self._counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def examples(self) -> Mapping[str, tuple[str, ...]]:
        """The first titles a reason, in the order of `counts`."""
        return {reason: tuple(self._titles[reason]) for reason in self.counts}

    def __str__(self) -> str:
        width = len(str(max(self._counts.values(), default=0)))
        lines = [f"{self.pages:,} pages read, {sum(self._counts.values()):,} left out"]
        for reason, count in self.counts.items():
            more = ", …" if count > len(self._titles[reason]) else ""
            lines.append(f"{count:{width}}  {reason}: {', '.join(self._titles[reason])}{more}")
        return "\n".join(lines)
