"""What a parser of dumps left out, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["DropReport", "Dropped"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A page that is left out."""

    title: str
    reason: str


@dataclass(slots=True)
class DropReport:
    """Titles of the pages left out, by reason; prints as a table.

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

    def add(self, dropped: Iterable[Dropped]) -> None:
        """Count pages."""
        for page in dropped:
            self._titles.setdefault(page.reason, []).append(page.title)

    @property
    def counts(self) -> Mapping[str, int]:
        """Pages a reason, the most frequent first."""
        counts = {reason: len(titles) for reason, titles in self._titles.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def titles(self) -> Mapping[str, tuple[str, ...]]:
        """All titles a reason, in the order of `counts`."""
        return {reason: tuple(self._titles[reason]) for reason in self.counts}

    def plus(self, dropped: Iterable[Dropped]) -> DropReport:
        """A report of these pages too; this one stays as it is."""
        report = DropReport(self.pages, {r: list(titles) for r, titles in self._titles.items()})
        report.add(dropped)
        return report

    def __str__(self) -> str:
        counts = self.counts
        width = len(str(max(counts.values(), default=0)))
        lines = [f"{self.pages:,} pages read, {sum(counts.values()):,} left out"]
        for reason, titles in self.titles.items():
            lines.append(f"{counts[reason]:{width}}  {reason}: {', '.join(titles)}")
        return "\n".join(lines)
