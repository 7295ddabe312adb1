"""Templates in running text that show some of their arguments; all others show nothing."""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["name_of", "shown"]

_FIRST = """
    nowrap nobr nobold small smaller big larger bold strong em 強調 sub sup unicode visible_anchor
    vanc jis2004フォント jis90フォント 補助漢字フォント cp932フォント 拡張漢字 機種依存文字
    hojoフォント 要出典範囲 要検証範囲 信頼性要検証範囲 要説明範囲 abbr tooltip 読み 英語版 val
    仮リンク ill ill2 illm link-interwiki 日本語版にない記事リンク internetquote 太字 下線
    """
_SECOND = "lang transl transliteration color 色 font_color audio langwithname"
_READING = "読み仮名 読み仮名_ruby不使用 ruby ルビ ふりがな ruby-ja"
_LABEL = ("label", "表示", "display")
_POSITION = {
    **dict.fromkeys(_FIRST.split(), 1),
    **dict.fromkeys(_SECOND.split(), 2),
}
_BRACKETED = frozenset(_READING.split())
_LAST = frozenset(("w", "wikipedia", "enlink", "wp", "langwithname"))  # display text, or the link
_PAGE = frozenset(("pagename", "fullpagename", "pagenamebase", "記事名"))
_CHARACTERS = {"!": "", "=": "=", "·": "・", "spaces": " ", "nbsp": " ", "スペース": " ", "-": "、"}


def name_of(template: Any) -> str:
    """A template's name, folded: width, case, namespace and underscores do not tell names apart."""
    name = unicodedata.normalize("NFKC", str(template.name)).strip().replace("_", " ")
    space, colon, rest = name.partition(":")
    if colon and space.strip().lower() in ("template", "テンプレート"):
        name = rest
    return " ".join(name.lower().split())


def shown(template: Any, page: str) -> list[Any]:
    """What a template shows in running text, as strings and parts of the tree."""
    name = name_of(template)
    key = name.replace(" ", "_")
    if key in _PAGE:
        return [page]
    if name in _CHARACTERS:
        return [_CHARACTERS[name]]
    for label in _LABEL:
        if key in _POSITION and template.has(label, ignore_empty=True):
            return [template.get(label).value]
    if key in _BRACKETED:
        base, reading = _argument(template, 1), _argument(template, 2)
        return [base] if not reading else [base, "（", reading, "）"]
    if key in _LAST:
        return [_argument(template, 2) or _argument(template, 1)]
    if key.startswith("lang-") or key in ("en", "ja"):
        return [_argument(template, 1)]
    if key in _POSITION:
        return [_argument(template, _POSITION[key])]
    return []


def _argument(template: Any, number: int) -> Any:
    name = str(number)
    return template.get(name).value if template.has(name, ignore_empty=True) else ""
