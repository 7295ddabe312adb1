"""LICENSES.md of a package: for every task its licence, whose work it is, whence, what changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task, get_suite, get_task

__all__ = ["LICENSES_FILE", "check_licenses", "licenses_md", "package_licenses"]

LICENSES_FILE = "LICENSES.md"
_CREATIVE_COMMONS = re.compile(r"cc-(by(?:-nc)?(?:-nd|-sa)?)-(\d\.\d)")
_SECTION = "\n## Licence\n"
_HEAD = """\
# Licences

Each config of this repository has the licence of its source. Its rows may be used under the terms
named below, with the attribution named below.
"""


def licenses_md(tasks: Iterable[Task], held: Collection[str] | None = None) -> str:
    """The text of a LICENSES.md.

    Args:
        tasks: in the order of the file.
        held: names of those whose rows are in the package; None: of all that may be redistributed.

    Raises:
        DataError: a card has no section `## Licence`, the one that says what was changed.
    """
    entries = [_entry(t, t.redistributable if held is None else t.name in held) for t in tasks]
    return "\n".join([_HEAD, *entries])


def package_licenses(manifest: Mapping[str, Any]) -> str:
    """LICENSES.md of the package with this manifest.

    It has the manifest's tasks, then those that a public package must leave out.
    """
    held = [get_task(name) for name in manifest]
    left_out = [
        task for task in get_suite("all") if not task.redistributable and task.name not in manifest
    ]
    return licenses_md([*held, *left_out], set(manifest))


def check_licenses(package: Path, manifest: Mapping[str, Any]) -> list[str]:
    """What is wrong with a package's LICENSES.md: absent, or not what the cards say now."""
    try:
        expected = package_licenses(manifest)
        found = (package / LICENSES_FILE).read_text(encoding="utf-8")
    except DataError as error:
        return [str(error)]
    except FileNotFoundError:
        return [f"no {LICENSES_FILE}; build the package again"]
    except (OSError, UnicodeDecodeError) as error:
        return [f"{LICENSES_FILE} cannot be read ({error}); build the package again"]
    if found != expected:
        return [f"{LICENSES_FILE} is not what the cards say now; build the package again"]
    return []


def _entry(task: Task, held: bool) -> str:
    configs = " and ".join(f"`{config}`" for config in task.configs)
    rows = f"here, config {configs}" if held else "not here; make them as the task's card says"
    revision = f", revision `{task.source.revision}`" if task.source.revision else ""
    lines = {
        "Licence": _licence(task),
        "Attribution": task.attribution,
        "Source": f"<{task.source.url}>{revision}",
        "Rows": rows,
        "Rows may be redistributed": "yes" if task.redistributable else "no",
    }
    listed = "\n".join(f"- {key}: {value}" for key, value in lines.items())
    return f"## {task.name}: {task.pretty_name}\n\n{listed}\n\n{_prose(task)}\n"


def _licence(task: Task) -> str:
    """The licence's id, with the address of its text where the id or the card gives one."""
    if found := _CREATIVE_COMMONS.fullmatch(task.license):
        return f"[{task.license}](https://creativecommons.org/licenses/{found[1]}/{found[2]}/)"
    if task.license == "unknown":
        return "not stated by the publisher (`unknown`)"
    name = task.hub.get("license_name", task.license)
    link = task.hub.get("license_link")
    return f"[{name}]({link})" if link else str(name)


def _prose(task: Task) -> str:
    """What the card says on its licence and its changes; a variant adds that it is one."""
    card = task if task.recipe is None else get_task(task.recipe.base)
    _, section, rest = f"\n{card.body}".partition(_SECTION)
    prose = rest.partition("\n## ")[0].strip()
    if not section or not prose:
        raise DataError(f"{card.name}.md: no text under '## Licence', expected what was changed")
    if task.recipe is None:
        return prose
    return f"A variant (`{task.recipe.name}`) of `{card.name}`, of which:\n\n{prose}"
