"""LICENSES.md: what every source wants said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jfinteb.build.licenses import check_licenses, licenses_md, package_licenses
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Recipe, get_suite, get_task


def sections(text: str) -> dict[str, str]:
    """Name of the task -> its section."""
    _, *parts = text.split("\n## ")
    return {part.partition(":")[0]: part for part in parts}


def test_every_task_has_its_section() -> None:
    tasks = get_suite("all")
    found = sections(licenses_md(tasks))
    assert list(found) == [task.name for task in tasks]
    for task in tasks:
        text = found[task.name]
        assert f"- Attribution: {task.attribution}\n" in text
        assert f"- Source: <{task.source.url}>" in text
        assert task.license in text or task.hub["license_name"] in text
        prose = task.body.split("## Licence\n")[1].split("\n## ")[0].strip()
        assert text.rstrip().endswith(prose)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        # addresses as creativecommons.org gives them
        ("chabsa", "[cc-by-4.0](https://creativecommons.org/licenses/by/4.0/)"),
        ("wikinews", "[cc-by-2.5](https://creativecommons.org/licenses/by/2.5/)"),
        ("industry33", "[cc-by-sa-4.0](https://creativecommons.org/licenses/by-sa/4.0/)"),
        ("multifin_ja", "[cc-by-nc-4.0](https://creativecommons.org/licenses/by-nc/4.0/)"),
        ("jafin", "not stated by the publisher (`unknown`)"),
        ("pfmt", "[pfmt-bench-fin-ja-terms](https://github.com/pfnet-research/pfmt-bench-fin-ja/"),
    ],
)
def test_licence_lines(name: str, line: str) -> None:
    assert f"- Licence: {line}" in licenses_md([get_task(name)])


def test_a_licence_without_an_address() -> None:
    task = replace(get_task("chabsa"), license="mit")
    assert "- Licence: mit\n" in licenses_md([task])


def test_what_is_in_the_package_and_what_is_not() -> None:
    found = sections(package_licenses({"wikinews_retrieval": {}, "chabsa": {}}))
    assert list(found) == ["wikinews_retrieval", "chabsa", "multifin_ja", "jafin", "pfmt"]
    here = "- Rows: here, config `wikinews_retrieval` and `wikinews_retrieval-corpus`\n"
    assert here in found["wikinews_retrieval"]
    assert "- Rows may be redistributed: yes\n" in found["chabsa"]
    for name in ("multifin_ja", "jafin", "pfmt"):
        assert "- Rows: not here; make them as the task's card says\n" in found[name]
        assert "- Rows may be redistributed: no\n" in found[name]


def test_rows_that_somebody_made_for_themselves() -> None:
    found = sections(package_licenses({"jafin": {}}))
    assert list(found) == ["jafin", "multifin_ja", "pfmt"]
    assert "- Rows: here, config `jafin` and `jafin-corpus`\n" in found["jafin"]
    assert "- Rows may be redistributed: no\n" in found["jafin"]


def test_a_variant_says_whose_it_is() -> None:
    task = get_task("chabsa")
    recipe = Recipe(base="chabsa", name="clean")
    variant = replace(task, name="chabsa_clean", recipe=recipe, body="Variant.\n")
    text = licenses_md([variant])
    assert "A variant (`clean`) of `chabsa`, of which:" in text
    assert "mixed and neutral-only sentences dropped" in text


@pytest.mark.parametrize("body", ["# X\n", "## Licence\n\n## Citation\n", "text ## Licence\nMIT\n"])
def test_a_card_without_words_on_its_licence(body: str) -> None:
    with pytest.raises(DataError) as caught:
        licenses_md([replace(get_task("chabsa"), body=body)])
    assert str(caught.value) == ("chabsa.md: no text under '## Licence', expected what was changed")


def test_check(synthetic_package: Path, tmp_path: Path) -> None:
    manifest = json.loads((synthetic_package / "manifest.json").read_text(encoding="utf-8"))
    path = tmp_path / "LICENSES.md"
    assert check_licenses(tmp_path, manifest) == ["no LICENSES.md; build the package again"]
    path.write_text(package_licenses(manifest), encoding="utf-8")
    assert check_licenses(tmp_path, manifest) == []
    del manifest["jafin"]
    stale = "LICENSES.md is not what the cards say now; build the package again"
    assert check_licenses(tmp_path, manifest) == [stale]
    path.write_bytes(b"\xff")
    [fault] = check_licenses(tmp_path, manifest)
    assert fault.startswith("LICENSES.md cannot be read (")
