"""Codes from the listing template, in every spelling that was met or can be feared."""

from __future__ import annotations

import pytest

from jfinteb.build.sources.listing import Listing, listings, prime_codes

SPELLINGS = {
    "positions": ("{{上場情報|東証プライム|9999|1990年4月1日}}", ["9999"]),
    "spaces": ("{{ 上場情報 | 東証プライム | 9999 | 1990年 }}", ["9999"]),
    "lines": ("{{上場情報\n|東証プライム\n|9999\n|1990年\n}}", ["9999"]),
    "names": ("{{上場情報|取引所=東証プライム|コード=9999}}", ["9999"]),
    "names in another order": ("{{上場情報|コード = 9999|取引所 = 東証プライム}}", ["9999"]),
    "other names": ("{{上場情報|市場=東証プライム|証券コード=9999|上場廃止日=}}", ["9999"]),
    "a name and a position": ("{{上場情報|東証プライム|コード=9999}}", ["9999"]),
    "numbers": ("{{上場情報|2=9999|1=東証プライム}}", ["9999"]),
    "code first": ("{{上場情報|9999|東証プライム}}", ["9999"]),
    "in one": ("{{上場情報|東証プライム 9999|1990年4月1日}}", ["9999"]),
    "section of the exchange": ("{{上場情報|東証プライム市場|9999}}", ["9999"]),
    "exchange in full": ("{{上場情報|東京証券取引所プライム市場|9999}}", ["9999"]),
    "section only": ("{{上場情報|プライム|9999}}", ["9999"]),
    "English": ("{{上場情報|TSE Prime|9999}}", ["9999"]),
    "links": ("{{上場情報|[[東京証券取引所|東証プライム]]|[[証券コード|9999]]}}", ["9999"]),
    "target of a link": ("{{上場情報|[[東証プライム|東証]]|9999}}", ["9999"]),
    "external link": ("{{上場情報|東証プライム|[https://example.com/2024?q=1234 9999]}}", ["9999"]),
    "quotes": ("{{上場情報|'''東証プライム'''|''9999''}}", ["9999"]),
    "full-width": ("{{上場情報｜東証プライム|９９９９}}".replace("｜", "|"), ["9999"]),
    "full-width letters": ("{{上場情報|東証プライム|１３０Ｚ}}", ["130Z"]),
    "small letters": ("{{上場情報|東証プライム|130z}}", ["130Z"]),
    "half-width kana": ("{{上場情報|東証ﾌﾟﾗｲﾑ|9999}}", ["9999"]),
    "tags": ("{{上場情報|<small>東証プライム</small>|<span>9999</span><br />}}", ["9999"]),
    "ref": ("{{上場情報|東証プライム|9999<ref>[[8888]]</ref>}}", ["9999"]),
    "ref unclosed": ("{{上場情報|東証プライム|9999|1990年}}<ref>出典\n", ["9999"]),
    "comment": ("{{上場情報|<!-- 旧東証1部 -->東証プライム|<!-- 8888 -->9999}}", ["9999"]),
    "templates": ("{{上場情報|{{nowrap|東証プライム}}|{{small|{{lang|ja|9999}}}}}}", ["9999"]),
    "template of a code": ("{{上場情報|東証プライム|{{TYO|9999}}}}", ["9999"]),
    "namespace": ("{{Template:上場情報|東証プライム|9999}}", ["9999"]),
    "entity": ("{{上場情報|東証プライム&nbsp;|&#57;999}}", ["9999"]),
    "brackets": ("{{上場情報|東証プライム|（9999）}}", ["9999"]),
    "suffix": ("{{上場情報|東証プライム|9999.T}}", ["9999"]),
    "preferred shares": (
        "{{上場情報|東証プライム|99995（優先）、9999（普通）}}",
        ["9999", "99995"],
    ),
    "moved up": ("{{上場情報|東証1部→東証プライム|9999}}", ["9999"]),
    "moved up in words": ("{{上場情報|東証1部から東証プライムへ|9999}}", ["9999"]),
    "once another": ("{{上場情報|東証プライム（旧東証1部、2022年4月3日まで）|9999}}", ["9999"]),
    "since a day": ("{{上場情報|東証プライム（2022年4月4日から）|9999|1949年から}}", ["9999"]),
    "several": (
        "{{上場情報|NYSE|MHN}}{{上場情報|東証1部|8888|1949年|2022年4月3日}}"
        "{{上場情報|東証プライム|9999}}{{上場情報|名証プレミア|7777}}",
        ["9999"],
    ),
    "two Prime listings": (
        "{{上場情報|東証プライム|9999}}{{上場情報|東証プライム|8888}}",
        ["9999", "8888"],
    ),
    "listed again": (
        "{{上場情報|東証プライム|8888|1949年|2023年1月4日}}{{上場情報|東証プライム|9999|2024年}}",
        ["9999"],
    ),
    "in a list": (
        "{{Plainlist|\n* {{上場情報|札証|8888}}\n* {{上場情報|東証プライム|9999}}\n}}",
        ["9999"],
    ),
}  # fmt: skip
NONE = {
    "once Prime": (
        "{{上場情報|東証スタンダード（旧東証プライム）|9999}}",
        "no listing on the Prime section",
    ),
    "moved down in words": (
        "{{上場情報|東証プライムから東証スタンダードへ|9999}}",
        "no listing on the Prime section",
    ),
    "moved down, with a link": (
        "{{上場情報|東証（旧[[東証プライム]]）|9999}}",
        "no listing on the Prime section",
    ),
    "a span in words": (
        "{{上場情報|東証プライム|9999|1949年5月16日から2024年1月1日まで}}",
        "delisted from the Prime section",
    ),
    "until a day": (
        "{{上場情報|東証プライム|9999|2024年1月1日まで}}",
        "delisted from the Prime section",
    ),
    "no template": ("東証プライム 9999", "no listing template (上場情報)"),
    "in a comment": ("<!-- {{上場情報|東証プライム|9999}} -->", "no listing template (上場情報)"),
    "another template": ("{{上場情報一覧|東証プライム|9999}}", "no listing template (上場情報)"),
    "standard": ("{{上場情報|東証スタンダード|9999}}", "no listing on the Prime section"),
    "others": (
        "{{上場情報|名証プレミア|9999}}{{上場情報|東証1部|9999}}",
        "no listing on the Prime section",
    ),
    "moved down": (
        "{{上場情報|東証プライム→東証スタンダード|9999}}",
        "no listing on the Prime section",
    ),
    "target only": (
        "{{上場情報|[[東証プライム|東証グロース]]|9999}}",
        "no listing on the Prime section",
    ),
    "empty": ("{{上場情報}}", "no listing on the Prime section"),
    "delisted": (
        "{{上場情報|東証プライム|9999|1949年5月16日|2023年12月20日}}",
        "delisted from the Prime section",
    ),
    "delisted by name": (
        "{{上場情報|取引所=東証プライム|コード=9999|上場廃止日=2024/6/27}}",
        "delisted from the Prime section",
    ),
    "delisted in words": (
        "{{上場情報|東証プライム|9999|2023年12月20日上場廃止}}",
        "delisted from the Prime section",
    ),
    "a span of days": (
        "{{上場情報|東証プライム|9999|1949年5月16日 - 2024年3月27日}}",
        "delisted from the Prime section",
    ),
    "no code": ("{{上場情報|東証プライム}}", "no code in the listing template"),
    "a day in place of the code": (
        "{{上場情報|東証プライム|2022年4月4日}}",
        "no code in the listing template",
    ),
    "a day in digits": ("{{上場情報|東証プライム|2022-04-04}}", "no code in the listing template"),
    "too long": ("{{上場情報|東証プライム|999999}}", "no code in the listing template"),
}  # fmt: skip


def box(listing: str) -> str:
    return (
        f"{{{{基礎情報 会社\n|社名 = みほん\n|市場情報 = {listing}\n|代表者=[[例]]\n}}}}\n本文。\n"
    )


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    text, expected = SPELLINGS[name]
    assert prime_codes(box(text)) == (expected, "")
    assert prime_codes(text) == (expected, "")


@pytest.mark.parametrize("name", NONE)
def test_no_code(name: str) -> None:
    text, reason = NONE[name]
    assert prime_codes(box(text)) == ([], reason)


def test_the_infobox_goes_first() -> None:
    text = "{{上場情報|東証プライム|8888}}" + box("{{上場情報|東証プライム|9999}}")
    assert prime_codes(text) == (["9999"], "")


def test_infobox_of_another_name() -> None:
    text = "{{上場情報|東証プライム|8888}}{{Infobox company|a={{上場情報|東証プライム|9999}}}}"
    assert prime_codes(text) == (["9999"], "")


def test_listings_in_order() -> None:
    text = box(
        "{{上場情報|東証1部|9999|1949年|2022年4月3日}}{{上場情報|東証プライム|9999|2022年4月4日}}"
    )
    assert list(listings(text)) == [
        Listing(prime=False, codes=("9999",), ended=True),
        Listing(prime=True, codes=("9999",), ended=False),
    ]
