"""Variants: tasks made from the sources of another task, under names that are never mixed up.

<task>_clean                                   duplicates merged, no text in two splits
<task>_since_<YYYYMM>[_n<rows>][_r<revision>]  "fresh": only months from then on (Economy Watchers
                                               Survey), so many rows a label, of another release
<task>_dump                                    from a dump of your own (Wikipedia, Wikinews)

In a name a release such as 2025.11.0 is written 2025_11_0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Recipe, Source, SourceFile, Split, Task

__all__ = ["fresh_name", "is_revision", "variant"]

_NAME = re.compile(
    r"(?P<base>\w+?)_(?P<recipe>clean|dump|since)"
    r"(_(?P<month>\d{4}(0[1-9]|1[0-2])))?"
    r"(_n(?P<rows>[1-9]\d+))?"
    r"(_r(?P<revision>\d+(?:_\d+)+|[0-9a-f]{40}))?",
    re.ASCII,
)
_REVISION = re.compile(r"\d+(?:\.\d+)+|[0-9a-f]{40}", re.ASCII)
_WORDS = {"clean": "clean", "dump": "other dump"}


def is_revision(text: str) -> bool:
    """Whether text names what does not move: a release such as 2025.11.0, or a whole commit."""
    return _REVISION.fullmatch(text) is not None


def fresh_name(base: Task, month: str, rows: int | None = None, revision: str | None = None) -> str:
    """Name of the variant with only the months from `month` (YYYYMM) on.

    Args:
        base: a task of the Economy Watchers Survey.
        month: the first month.
        rows: rows drawn a label; None: as many as in the paper.
        revision: release of the survey; None: the one that the card pins.

    Raises:
        UsageError: the task has no such variants.

    >>> from jfinteb.loaders import get_task
    >>> fresh_name(get_task("ews_domain"), "202506", 200, "2025.11.0")
    'ews_domain_since_202506_n200_r2025_11_0'
    """
    if not _has_months(base):
        raise UsageError(
            f"found task {base.name}, expected one of the Economy Watchers Survey: only these have "
            "variants by month and release"
        )
    pinned = revision in (None, base.source.revision)
    release = "" if pinned else f"_r{str(revision).replace('.', '_')}"
    return f"{base.name}_since_{month}{f'_n{rows}' if rows else ''}{release}"


def variant(name: str, tasks: Mapping[str, Task]) -> Task | None:
    """The variant of that name; None if none of `tasks` has such a variant.

    >>> from jfinteb.loaders import get_task
    >>> get_task("ews_domain_since_202406").recipe.month
    '202406'
    >>> get_task("ews_domain_since_202506_r2025_11_0").source.revision
    '2025.11.0'
    """
    match = _NAME.fullmatch(name)
    base = tasks.get(match["base"]) if match else None
    if match is None or base is None:
        return None
    recipe = Recipe(
        base=base.name,
        name=match["recipe"],
        month=match["month"],
        rows=int(match["rows"]) if match["rows"] else None,
        revision=match["revision"].replace("_", ".") if match["revision"] else None,
    )
    if not _exists(base, recipe):
        return None
    splits: Mapping[str, Split] = {split: Split() for split in base.splits}
    known_flaws: Mapping[str, Mapping[str, int]] = {}
    if recipe.name == "clean" and base.clean is not None:
        splits, known_flaws = base.clean.splits, base.clean.known_flaws
    short, long = _words(recipe)
    return replace(
        base,
        name=name,
        title=f"{base.title} ({short})",
        pretty_name=f"{base.pretty_name} ({long})",
        suites=("jfinteb-clean",) if recipe.name == "clean" and "jfinteb" in base.suites else (),
        aliases=(),
        splits=splits,
        clean=None,
        other_sources={},  # they have the rows of the task itself
        known_flaws=known_flaws,
        recipe=recipe,
        source=_source(base, recipe),
        body=f"Variant `{recipe.name}` of `{base.name}` ({long}): see the card of that task. "
        f"Its scores are not comparable with those of `{base.name}`.\n",
    )


def _exists(base: Task, recipe: Recipe) -> bool:
    if recipe.name == "since":
        pinned = recipe.revision == base.source.revision  # has a name without it
        return _has_months(base) and recipe.month is not None and not pinned
    if recipe.month is not None or recipe.rows is not None or recipe.revision is not None:
        return False
    return base.clean is not None if recipe.name == "clean" else "dump" in base.other_sources


def _has_months(task: Task) -> bool:
    return task.source.parser == "ews" and task.recipe is None


def _words(recipe: Recipe) -> tuple[str, str]:
    """How a title and a long name tell the variant from the task, and from its other variants."""
    if recipe.month is None:
        return _WORDS[recipe.name], f"{_WORDS[recipe.name]} variant"
    month = f"{recipe.month[:4]}-{recipe.month[4:]}"
    short, long = [f"fresh {month}"], [f"fresh variant, months from {month} on"]
    if recipe.rows is not None:
        short.append(f"n={recipe.rows}")
        long.append(f"{recipe.rows} rows a label")
    if recipe.revision is not None:
        short.append(recipe.revision)
        long.append(f"release {recipe.revision}")
    return ", ".join(short), ", ".join(long)


def _source(base: Task, recipe: Recipe) -> Source:
    """Where the variant's rows come from; another release has files of its own names."""
    if recipe.name == "dump":
        return base.other_sources["dump"]
    source, revision = base.source, recipe.revision
    if revision is None:
        return source
    files = {
        key: SourceFile(
            path=_below(file.path, revision),
            url=file.url and file.url.replace(f"@{source.revision}/", f"@{revision}/"),
        )
        for key, file in source.files.items()
    }
    return replace(source, url=f"{source.url}/tree/{revision}", revision=revision, files=files)


def _below(path: str, revision: str) -> str:
    """`ews/current/train.jsonl` of another release is `ews/2025.11.0/current/train.jsonl`."""
    first, _, rest = path.partition("/")
    return f"{first}/{revision}/{rest}"
