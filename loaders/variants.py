"""Variants: tasks made from the sources of another task, under names that are never mixed up.

<task>_clean                     duplicates merged, no text in two splits; see the task's card
<task>_since_<YYYYMM>[_n<rows>]  only months from then on (Economy Watchers Survey)
<task>_dump                      from a dump of your own (Wikipedia, Wikinews)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from jfinteb.loaders.task import Recipe, Split, Task

__all__ = ["variant"]

_NAME = re.compile(
    r"(?P<base>\w+?)_(?P<recipe>clean|dump|since)(_(?P<month>\d{4}(0[1-9]|1[0-2])))?(_n(?P<rows>[1-9]\d+))?",
    re.ASCII,
)
_WORDS = {"clean": "clean", "since": "fresh", "dump": "other dump"}


def variant(name: str, tasks: Mapping[str, Task]) -> Task | None:
    """The variant of that name; None if none of `tasks` has such a variant.

    >>> from jfinteb.loaders import get_task
    >>> get_task("ews_domain_since_202406").recipe.month
    '202406'
    """
    match = _NAME.fullmatch(name)
    base = tasks.get(match["base"]) if match else None
    if match is None or base is None:
        return None
    rows = int(match["rows"]) if match["rows"] else None
    recipe = Recipe(base=base.name, name=match["recipe"], month=match["month"], rows=rows)
    if not _exists(base, recipe):
        return None
    splits: Mapping[str, Split] = {split: Split() for split in base.splits}
    known_flaws: Mapping[str, Mapping[str, int]] = {}
    if recipe.name == "clean" and base.clean is not None:
        splits, known_flaws = base.clean.splits, base.clean.known_flaws
    return replace(
        base,
        name=name,
        title=f"{base.title} ({_WORDS[recipe.name]})",
        pretty_name=f"{base.pretty_name} ({_WORDS[recipe.name]} variant)",
        suites=("jfinteb-clean",) if recipe.name == "clean" and "jfinteb" in base.suites else (),
        aliases=(),
        splits=splits,
        clean=None,
        other_sources={},  # they have the rows of the task itself
        known_flaws=known_flaws,
        recipe=recipe,
        source=base.other_sources["dump"] if recipe.name == "dump" else base.source,
        body=f"Variant `{recipe.name}` of `{base.name}`: see the card of that task.\n",
    )


def _exists(base: Task, recipe: Recipe) -> bool:
    if recipe.name == "since":
        return base.source.parser == "ews" and recipe.month is not None
    if recipe.month is not None or recipe.rows is not None:
        return False
    return base.clean is not None if recipe.name == "clean" else "dump" in base.other_sources
