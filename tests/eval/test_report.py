"""The page: the values of the boards, hostile names as text, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from jfinteb.eval.leaderboard import boards
from jfinteb.eval.report import html
from jfinteb.eval.runs import ScoredRun
from jfinteb.loaders.sample import NOTICE

from .results import SPEC, result, run

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e\ud800"


class Page(HTMLParser):
    """Elements with their attributes, and the text of table rows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(*runs: ScoredRun) -> tuple[str, Page]:
    text = html(boards(runs, suite=None, chosen=False))
    text.encode("utf-8")
    return text, Page(text)


def test_rows_columns_intervals_and_marks_are_those_of_the_board() -> None:
    _, page = page_of(
        run(
            result("chabsa", 0.75, half=0.05, model="a"), result("pfmt", 0.25, half=0.01, model="a")
        ),
        run(
            result("chabsa", 0.70, half=0.05, model="b"), result("pfmt", 0.5, half=0.01, model="b")
        ),
        run(result("chabsa", 0.5, half=0.05, model="c")),
    )
    heads = page.rows[0]
    assert heads == ["#", "run", "average11 tasks", "chabsamacro_f1", "pfmtndcg_at_10"]
    assert [row[2:] for row in page.rows[1:4]] == [
        ["–", "0.75000.7000–0.8000", "0.25000.2400–0.2600"],
        ["–", "0.70000.6500–0.7500", "0.50000.4900–0.5100"],
        ["–", "0.50000.4500–0.5500", "–"],
    ]
    cells = [a for a in page.named("td") if "data-value" in a]
    marks = {a["data-value"]: a.get("class") for a in cells if a.get("class")}
    assert marks == {"0.75": "best", "0.7": "near", "0.5": "best"}  # 0.5 on pfmt; on chabsa ""
    assert [a.get("class") for a in cells if a["data-value"] == "0.5"] == ["best", ""]


def test_a_bar_goes_from_bound_to_bound_on_the_scale_of_its_column() -> None:
    _, page = page_of(
        run(result("chabsa", 0.25, half=0.25, model="a")),  # column: 0 to 1
        run(result("chabsa", 0.75, half=0.25, model="b")),
    )
    bars = [(a["x"], a["width"]) for a in page.named("rect")]
    assert bars == [("0.0", "50.0"), ("50.0", "50.0")]


def test_names_and_notes_of_others_are_text() -> None:
    hostile = result("chabsa", 0.5, model=HOSTILE, spec={**SPEC, "pooling": HOSTILE})
    hostile.notes.append(HOSTILE)
    other = result("chabsa", 0.4, model=HOSTILE, digest="e" * 64, environment={HOSTILE: HOSTILE})
    text, page = page_of(run(hostile), run(other))
    assert len(page.named("script")) == 1 and not page.named("img")
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert "alert(1)" in page.text and "\u202e" not in text
    hrefs = [str(a["href"]) for a in page.named("a")]
    assert all(href.startswith("#") for href in hrefs)
    assert {href[1:] for href in hrefs} == {str(a["id"]) for a in page.named("details")}


def test_nothing_comes_from_elsewhere_and_only_our_script_may_run() -> None:
    text, page = page_of(run(result("chabsa", 0.5)))
    assert "http:" not in text and "https:" not in text and "url(" not in text
    assert not page.named("link") and not [a for _, a in page.elements if "src" in a]
    (policy,) = (str(a["content"]) for a in page.named("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_run_is_told_in_full_and_a_mixed_one_by_task() -> None:
    mixed = run(
        result("chabsa", 0.5), result("pfmt", 0.5, environment={"torch": "2.12.0"}), folder="x/y"
    )
    _, page = page_of(mixed, run(result("chabsa", 0.5, sample=True)))
    lines = [row for row in page.rows if len(row) == 2]
    assert ["spec: pooling", "mean"] in lines and ["folder", "x/y"] in lines
    assert ["made with (chabsa)", "torch 2.13.0, device cpu"] in lines
    assert ["made with (pfmt)", "torch 2.12.0"] in lines
    assert "a note" in page.text and NOTICE in page.text
    scored = next(row for row in page.rows if row[:1] == ["pfmt"])
    assert scored[1:4] == ["0.5000", "0.4900–0.5100", "cosine"] and scored[5] == "3"
