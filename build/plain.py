"""Texts of Wikimedia pages without what their publication has left in them; for `clean` variants.

Only what can be told for sure goes: character references become their characters; comments, HTML
tags (not what they enclose) and images with their captions go; so does the note of a template that
closes archived Wikinews articles. Half a template, a table, a lone pair of braces: these stay,
since where the text goes on cannot be told.
"""

from __future__ import annotations

import html
import re

__all__ = ["plain"]

_LAYERS = 3  # `&amp;nbsp;` is one more reference inside
_COMMENT = re.compile(r"<!--.*?-->|<!--", re.DOTALL)
_TAG = re.compile(
    r"</?(?:b|big|br|center|code|div|em|font|gallery|i|li|nowiki|ol|p|ref|references|s|small|span"
    r"|strong|sub|sup|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"\[\[ *(?:image|file|画像|ファイル) *:[^\[\]]*\]\]", re.IGNORECASE)
_ARCHIVED = re.compile(
    r"この記事は(?:[^。]{0,40}。){1,2}[^。]{0,60}\{\{editprotected\}\}[^。]{0,140}。\Z"
)


def plain(text: str) -> str:
    """A text without references to characters, tags, images and the note on archived articles.

    >>> plain("[[画像:X.jpg|thumb|本社]]3m&lt;sup&gt;2&lt;/sup&gt;で&quot;R&amp;D&quot;を行う。")
    '3m2で"R&D"を行う。'
    """
    for _ in range(_LAYERS):
        text = html.unescape(text)
    for leftover in (_COMMENT, _TAG, _IMAGE, _ARCHIVED):
        text = leftover.sub("", text)
    return text
