"""Findings of an audit: what, where, how grave, and whether the card declares it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from jfinteb.loaders.errors import DataError

__all__ = ["Check", "Finding", "Known", "Severity", "declare", "finding"]


class Severity(str, Enum):
    """An error makes scores wrong or rows unloadable; a warning is for the reader to weigh."""

    ERROR = "error"
    WARNING = "warning"

    def __str__(self) -> str:
        return self.value


class Check(str, Enum):
    """What a finding is about; it counts rows and names their ids, unless said otherwise here."""

    MISSING_SPLIT = "missing_split"  # no file of the split; counts 1
    REFUSED = "refused"  # no parquet, or other columns or types than the card's; counts 1
    NO_MANIFEST = "no_manifest"  # the package's manifest does not tell of the split; counts 1
    ROW_COUNT = "row_count"  # other than the card's or the manifest's; counts 1
    CHANGED_ROWS = "changed_rows"  # a content digest other than the card's or manifest's; counts 1
    EMPTY_SPLIT = "empty_split"  # no rows; counts 1
    EMPTY_CELL = "empty_cell"  # a null in any column
    DUPLICATE_ID = "duplicate_id"  # the second and later rows of an id
    UNKNOWN_LABEL = "unknown_label"  # a label id that the card lacks
    MISSING_LABEL = "missing_label"  # counts and names the card's labels without a row here
    EMPTY_TEXT = "empty_text"  # also of documents and queries
    NOT_NFC = "not_nfc"  # not in Unicode normal form C
    CONTRADICTION = "contradiction"  # the same text has another label, in this or another split
    LEAK = "leak"  # the same text stands in train
    MISSING_RELEVANT = "missing_relevant"  # queries with a relevant id that the corpus lacks
    NOTHING_RELEVANT = "nothing_relevant"  # no query of the split has one; counts 1
    NO_RELEVANT = "no_relevant"  # queries without relevant documents
    SHARED_TEXT = "shared_text"  # the same text stands in an earlier split, and not in train
    DUPLICATE_TEXT = "duplicate_text"  # the second and later rows of a text within the split
    HTML_ENTITY = "html_entity"  # a character reference, such as `&lt;` or `&#160;`
    WIKI_MARKUP = "wiki_markup"  # double square brackets or double braces

    def __str__(self) -> str:
        return self.value

    @property
    def severity(self) -> Severity:
        """How grave a finding of this kind is."""
        return Severity.WARNING if self in _WARNINGS else Severity.ERROR


_WARNINGS = {
    Check.NO_RELEVANT,
    Check.SHARED_TEXT,
    Check.DUPLICATE_TEXT,
    Check.HTML_ENTITY,
    Check.WIKI_MARKUP,
}
Known = Mapping[str, Mapping[str, int]]  # check -> split -> count


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One kind of flaw in one split; `known` where the card declares exactly this count."""

    check: Check
    severity: Severity
    split: str
    count: int
    ids: tuple[str, ...] = ()
    note: str = ""
    known: bool = False


def finding(check: Check, split: str, ids: tuple[str, ...] = (), note: str = "") -> Finding:
    """A finding of a check's own severity; without ids it counts 1."""
    count = len(ids) or 1
    return Finding(
        check=check, severity=check.severity, split=split, count=count, ids=ids, note=note
    )


def declare(found: Iterable[Finding], known: Known) -> list[Finding]:
    """Mark what a card declares; any other count than the declared one is an error.

    Args:
        found: the findings of a task.
        known: check -> split -> declared count.

    Raises:
        DataError: there is no such check.
    """
    unknown = sorted(set(known) - {check.value for check in Check})
    if unknown:
        raise DataError(f"known flaw {unknown[0]!r}: expected one of {', '.join(Check)}")
    left = {(check, split): n for check, counts in known.items() for split, n in counts.items()}
    marked = []
    for flaw in found:
        expected = left.pop((flaw.check.value, flaw.split), None)
        if expected is None:
            marked.append(flaw)
        elif expected == flaw.count:
            marked.append(replace(flaw, known=True))
        else:
            note = "; ".join(filter(None, [f"the card declares {expected}", flaw.note]))
            marked.append(replace(flaw, severity=Severity.ERROR, note=note))
    for (check, split), expected in ((key, n) for key, n in left.items() if n):
        gone = finding(Check(check), split, (), f"the card declares {expected}, found none")
        marked.append(replace(gone, severity=Severity.ERROR, count=0))
    return marked
