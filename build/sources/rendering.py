"""A syntax tree of mwparserfromhell as text: links by their words, templates by what they show."""

from __future__ import annotations

import html
import re
from typing import Any

from jfinteb.build.sources.templates import shown

__all__ = ["LIST", "render"]

LIST = "\x01"  # stands where a list item starts
_UNSEEN = """ref references gallery math chem ce timeline score imagemap graph mapframe maplink
    syntaxhighlight source templatestyles style script includeonly section inputbox hiero table
    categorytree dynamicpagelist indicator templatedata img video audio rp""".split()  # noqa: SIM905
_BREAKS = """br hr p div blockquote center poem ul ol dl li dd dt
    h1 h2 h3 h4 h5 h6""".split()  # noqa: SIM905
_UNSEEN_LINKS = ("file", "image", "media", "ファイル", "画像", "メディア", "category", "カテゴリ")
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}|simple|zh-[a-z-]+|be-[a-z-]+|roa-[a-z]+|map-bms)\Z")
_SISTERS = """w wikipedia n wikinews wikt wiktionary s wikisource b wikibooks q wikiquote c commons
    m meta d wikidata v wikiversity voy species mw""".split()  # noqa: SIM905


def render(code: Any, page: str) -> str:
    """Text of a tree (a `Wikicode`); list items start with `LIST`, breaks are line ends.

    Args:
        code: the tree.
        page: the page's title, which wikitext may name as {{PAGENAME}}.
    """
    return "".join(_node(node, page) for node in code.nodes)


def _node(node: Any, page: str) -> str:
    kind = type(node).__name__
    if kind == "Text":
        return str(node.value)
    if kind == "Wikilink":
        return _link(node, page)
    if kind == "ExternalLink":
        if node.title is not None:
            return render(node.title, page)
        return "" if node.brackets else str(node.url)
    if kind == "Template":
        return "".join(
            part if isinstance(part, str) else render(part, page) for part in shown(node, page)
        )
    if kind == "Tag":
        return _tag(node, page)
    if kind == "HTMLEntity":
        return html.unescape(str(node))
    if kind == "Argument":
        return render(node.default, page) if node.default is not None else ""
    return "\n\n" if kind == "Heading" else ""


def _tag(node: Any, page: str) -> str:
    name = str(node.tag).strip().lower()
    if name in _UNSEEN:
        return ""
    if "display:none" in "".join(str(a.value) for a in node.attributes).replace(" ", "").lower():
        return ""
    content = "" if node.contents is None else render(node.contents, page)
    if name == "rt":
        return f"（{content}）"
    if name in ("li", "dd", "dt"):
        content = LIST + content
    return f"\n{content}\n" if name in _BREAKS and content else "\n" if name in _BREAKS else content


def _link(node: Any, page: str) -> str:
    title = str(node.title).strip()
    prefix, colon, rest = title.partition(":")
    space = prefix.strip().lower()
    if colon and space in _UNSEEN_LINKS:
        return ""
    if node.text is not None and str(node.text).strip():
        return (
            ""
            if colon and space and _LANGUAGE.match(space) and space not in _SISTERS
            else (render(node.text, page))
        )
    if colon and not space:  # [[:Category:X]] only names it
        return rest.rpartition(":")[2].strip() if ":" in rest else rest.strip()
    if colon and space in _SISTERS:
        return rest.rpartition(":")[2].strip()
    if colon and _LANGUAGE.match(space):
        return ""
    return render(node.title, page).strip()
