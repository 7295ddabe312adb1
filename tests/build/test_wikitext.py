"""Wikitext to clean text: expected values written by hand, after what MediaWiki shows."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfinteb.build.sources.wikitext import (
    Section,
    UnreadableError,
    categories,
    lines,
    paragraphs,
    sections,
)

CASES = {
    "plain": ("普通の文。", "普通の文。"),
    "link": ("[[東京都]]の[[港区 (東京都)|港区]]と[[銀座#歴史|銀座]]", "東京都の港区と銀座"),
    "link with a template": ("[[東京|{{nowrap|'''東京'''}}]]", "東京"),
    "external": ("[https://example.com/ 公式] [https://example.com/]と", "公式 と"),
    "file": ("[[ファイル:a.jpg|thumb|[[社屋]]（[[東京]]、{{lang|en|HQ}}）]]本文", "本文"),
    "file in English": ("[[File:a.jpg|200px]][[image:b.png]]本文", "本文"),
    "category": ("本文[[Category:会社]][[カテゴリ:企業|き]]", "本文"),
    "category named": ("[[:Category:会社|分類]]と[[:Category:企業]]", "分類と企業"),
    "interlanguage": ("本文[[en:Company]]、[[:en:Firm|英語]]", "本文、英語"),
    "sister": ("[[w:東京]]と[[wikt:会社|会社]]", "東京と会社"),
    "quotes": ("'''太字'''と''斜体''と'''''両方'''''、未閉'''", "太字と斜体と両方、未閉"),
    "apostrophe": ("McDonald's", "McDonald's"),
    "ref": ('文<ref>出典 [[a]] {{b}}</ref>。<ref name="x" />次<ref name=y>z</ref>。', "文。次。"),
    "ref in capitals": ("文<REF>出典</REF>。<references />", "文。"),
    "ref with a bracket": ("文<ref>a < b</ref>。", "文。"),
    "ref unclosed": ("文<ref>出典\n次の行<ref>別</ref>。", "文次の行。"),
    "ref unclosed at the end": ("文<ref name=a>出典", "文"),
    "ref closed twice": ("文<ref>a</ref></ref>。", "文。"),
    "comment": ("あ<!-- [[い]] -->う<!---->え<!--\n複数行\n-->お", "あうえお"),
    "comment unclosed": ("あ<!-- い\nう", "あ"),
    "template": ("文{{要出典|date=2020年}}。{{Otheruses|x|y}}", "文。"),
    "template nested": ("文{{a|{{b|{{c|[[d]]}}|e={{f}}}}|{{{g|h}}}}}。", "文。"),
    "template lines": ("{{Infobox\n|a = {{b\n|c=[[d]]\n}}\n|e=\n* f\n}}\n文", "文"),
    "lang": ("{{lang|en|Mihon}}と{{lang-en|Sample}}", "MihonとSample"),
    "lang numbered": ("{{lang|2=Mihon|1=en}}", "Mihon"),
    "lang with equals": ("{{lang|en|2=a=b}}", "a=b"),
    "interlanguage template": (
        "{{仮リンク|甲|en|A}}、{{仮リンク|乙|en|B|label=Z}}、{{Ill2|丙|en|C}}",
        "甲、Z、丙",
    ),
    "reading": ("{{読み仮名|'''見本'''|みほん}}", "見本（みほん）"),
    "ruby": ("<ruby>見本<rp>(</rp><rt>みほん</rt><rp>)</rp></ruby>", "見本（みほん）"),
    "formatting template": ("{{small|{{nowrap|[[小]]}}}}{{要出典範囲|文|date=2020年}}", "小文"),
    "template space": ("{{Template:Nowrap|文}}", "文"),
    "page name": ("'''{{PAGENAME}}'''は", "題は"),
    "parser function": ("文{{#if:a|b|c}}{{DEFAULTSORT:ぶん}}", "文"),
    "argument": ("{{{1|既定}}}{{{2}}}", "既定"),
    "template unclosed": ("前\n{{unclosed|a=b\n|c=d\n後", "前後"),
    "template stray": ("前}}後]]", "前後"),
    "link unclosed": ("[[東京の会社", "東京の会社"),
    "file unclosed": ("本文[[ファイル:a.jpg|thumb", "本文"),
    "sub and sup": ("CO<sub>2</sub>とm<sup>2</sup>とH{{sub|2}}O", "CO2とm2とH2O"),
    "tags": ('<span style="color:red">赤</span><small>小</small><u>下</u>', "赤小下"),
    "hidden": ('<span style="display: none">隠</span>見', "見"),
    "break": ("上<br />下<br>底", "上下底"),
    "tag unclosed": ("<div class='a'>文<small>小", "文小"),
    "math": ("式<math>\\frac{a}{b}</math>。", "式。"),
    "gallery": ("前<gallery>\nFile:a.jpg|[[甲]]\n</gallery>後", "前後"),
    "nowiki": ("<nowiki>[[生]]</nowiki>と<nowiki/>文", "生と文"),
    "syntax": ("前<syntaxhighlight lang='c'>int a[[1]];</syntaxhighlight>後", "前後"),
    "entities": ("M&amp;A&nbsp;&lt;甲&gt;&#x4E59;&#19993;&quot;", 'M&A <甲>乙丙"'),
    "entity twice": ("甲&amp;nbsp;乙&amp;lt;br /&amp;gt;", "甲 乙"),
    "no entity": ("AT&T、R&D;", "AT&T、R&D;"),
    "tag as entities": ("文&lt;ref&gt;出&lt;/ref&gt;&lt;br /&gt;", "文出"),
    "table": ('前\n{| class="a"\n|+ 題\n! 甲 !! 乙\n|-\n| 一 || 二\n|}\n後', "前後"),
    "table in a table": ("前\n{|\n|\n{| class=b\n| 内\n|}\n| 外\n|}\n後", "前後"),
    "table in HTML": ("前<table><tr><td>甲</td></tr></table>後", "前後"),
    "table unclosed": ("前\n{| class=a\n! 甲\n|-\n| 乙\n後", "前後"),
    "table with a template": ("前\n{|\n|{{a|b}}||[[c|d]]\n|}\n後", "前後"),
    "list": ("* 甲\n** 乙\n# 丙\n: 丁\n; 戊", "甲乙丙丁戊"),
    "heading": ("== 題 ==\n文\n=== 小題 ===", "文"),
    "magic words": ("__NOTOC__文__目次__{{!}}", "文"),
    "rule": ("上\n----\n下", "上下"),
    "empty brackets": ("見本（{{lang-en-short}}）、甲（、みほん）", "見本、甲（みほん）"),
    "bracket after a comma": ("甲（みほん、{{R|a}}）", "甲（みほん）"),
    "invisible": ("見\u200b本\ufeff\u00ad", "見本"),
    "composed": ("カ\u3099ス", "ガス"),
    "full-width": ("ＡＢＣ（エービーシー）", "ＡＢＣ（エービーシー）"),
    "empty": ("", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_clean_text(name: str) -> None:
    text, expected = CASES[name]
    assert "".join(lines(text, "題")) == expected


MARKUP = ["[[", "]]", "{{", "}}", "{|", "|}", "''", "<ref", "<br", "<!--", "-->", "&nbsp;", "&lt;"]
_WORDS = """[[ ]] {{ }} {| |} | ! '' ''' <ref> </ref> <ref/> <br/> <!-- --> &nbsp; &amp; lt; = == *
    # <small> </small> <nowiki> </nowiki> <gallery> </gallery> {{{ }}} [http://a ] ファイル: lang
    en: Category: 会社 、 （ ） <table> </table> <div> </div>"""
SNIPPETS = st.sampled_from([*_WORDS.split(), "\n", " ", "\n{|", "\n|-\n|"])


@settings(max_examples=400, deadline=None)
@given(st.lists(SNIPPETS, max_size=30).map("".join))
def test_no_markup_is_left_of_anything(text: str) -> None:
    found = lines(text)
    assert [mark for line in found for mark in MARKUP if mark in line] == []
    assert all(line == line.strip() and line for line in found)


def test_paragraphs() -> None:
    text = "一の一\n一の二<br />一の三\n\n* 箇条\n二\n: 字下げ\n\n\n{{x}}\n"
    text += "{|\n|表\n|}\n三\n== 題 ==\n四"
    assert paragraphs(text) == ["一の一一の二一の三", "二", "三", "四"]


def test_sections() -> None:
    text = "前\n== 概 要 ==\n甲\n===小===  \n乙\n<!--\n== 無 ==\n-->\n"
    text += "<nowiki>\n== 無 ==\n</nowiki>丙\n== 片"
    assert sections(text) == [
        Section(0, "", "前\n"),
        Section(2, "概 要", "甲\n"),
        Section(3, "小", "乙\n\n<nowiki>\n== 無 ==\n</nowiki>丙\n== 片"),
    ]
    assert sections("== 題 ==\n文") == [Section(0, "", ""), Section(2, "題", "文")]


def test_categories() -> None:
    text = (
        "[[Category:甲]][[ category : 乙_丙 |そーと]][[カテゴリ:丁|]]"
        "[[:Category:無]]<!-- [[Category:無]] --><nowiki>[[Category:無]]</nowiki>[[Category:戊]]"
    )
    assert categories(text) == ["甲", "乙 丙", "丁", "戊"]


@pytest.mark.parametrize(
    "unit",
    ["{{a|", "[[a|", "<div>", "<b ", "\n{|\n|", "{{{", "[http://a ", "<nowiki>", "= ", "\n==a==",
     "\n*", "（、", "<!-- -->", "<ref>a", "][", "&amp;", "''"],
)  # fmt: skip
def test_hostile_text_is_read_or_refused_soon(unit: str) -> None:
    """mwparserfromhell takes minutes, or ends the process, for some of these."""
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    try:
        lines(text)
    except UnreadableError as error:
        assert "are not closed" in str(error)
    sections(text)
    categories(text)
    assert time.process_time() - start < 10
