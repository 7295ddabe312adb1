"""Whether wikitext is closed well enough for a parser that goes back to each unclosed thing."""

from __future__ import annotations

import re

__all__ = ["fault"]

_TOKEN = re.compile(
    r"(?P<open>\{\{|\[\[)|(?P<table>^[ \t:;*#]*\{\|)|(?P<link>\[(?=//|[a-z][a-z0-9+.-]*:))"
    r"|</(?P<end>[a-z][a-z0-9]*)[^<>]*>?|<(?P<tag>[a-z][a-z0-9]*)|(?P<stop>/?>)"
    r"|(?P<close>\}\}|\]\]|\|\}|\])|(?P<line>\n)",
    re.IGNORECASE | re.MULTILINE,
)
_PARTNER = {"}}": "{{", "]]": "[[", "|}": "{|", "]": "["}
_SINGLE = frozenset(("br", "hr", "wbr", "img", "li", "dd", "dt", "p", "tr", "td", "th"))
_RAW = frozenset(  # what they hold is no wikitext
    (
        *("categorytree", "ce", "chem", "gallery", "graph", "hiero", "imagemap", "inputbox"),
        *("math", "nowiki", "pre", "score", "section", "source", "syntaxhighlight"),
        *("templatedata", "timeline"),
    )
)
_MOST_OPEN, _DEEPEST = 30, 60
_MOST_READ = 3_000_000  # characters read again: unclosed things, times the text; some seconds


def fault(text: str) -> str | None:
    """What is wrong with the nesting of wikitext, or None where a parser can be given it.

    What is closed while something inside it is open leaves that unclosed, and so does a tag without
    its `>`; the parser reads on from each of them, at worst to the end, and then once more.

    >>> fault("[[a|<b>c</b>]] {{d|}}")
    >>> fault("[[" * 40)
    '40 things are not closed, 40 at a time are open'
    """
    stack: list[str] = []
    lower, unclosed, deepest, at = text.lower(), 0, 0, 0
    endless: set[str] = set()  # names of raw tags that nothing closes from here on
    while token := _TOKEN.search(text, at):
        at, kind, found = token.end(), token.lastgroup, token[0]
        top = stack[-1] if stack else ""
        if kind == "open":
            stack.append(found)
        elif kind == "table":
            stack.append("{|")
        elif kind == "link":
            stack.append("[")
        elif kind == "tag":
            stack.append(f"<{token['tag'].lower()} ")
        elif kind == "stop":
            if top.endswith(" "):
                stack.pop()
                name = top[1:-1]
                if found == ">" and name in _RAW:
                    end = -1 if name in endless else lower.find(f"</{name}", at)
                    at = at if end == -1 else end + 1
                    if end == -1:
                        endless.add(name)
                        unclosed += 1
                elif found == ">" and name not in _SINGLE:
                    stack.append(f"<{name}")
        elif kind == "line":
            if top == "[":  # a link outwards ends with its line
                stack.pop()
                unclosed += 1
        else:
            partner = f"<{token['end'].lower()}" if kind == "end" else _PARTNER[found]
            if top == partner:
                stack.pop()
            elif found == "|}" or (found == "]]" and top == "["):
                at -= 1  # `{{a|}}` ends no table, `[http://a b]]` no link inwards
                if top == "[" and found == "]]":
                    stack.pop()
            elif found != "]" and partner in stack:
                while stack.pop() != partner:
                    unclosed += 1
        deepest = max(deepest, len(stack))
        if deepest > _DEEPEST:
            break
    unclosed += len(stack)
    if len(stack) > _MOST_OPEN or deepest > _DEEPEST or unclosed * len(text) > _MOST_READ:
        return f"{unclosed} things are not closed, {deepest} at a time are open"
    return None
