"""Pages that are one file: everything from outside is escaped, and nothing is fetched or run."""

from __future__ import annotations

import re

import pytest

from evenroll.text.page import Html, common_style, document, element, html, joined, table

HOSTILE = "<script>alert(1)</script> & \"a\" 'b'"


def test_text_is_escaped_once_and_html_is_kept() -> None:
    once = html(HOSTILE)
    assert once == "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;a&quot; &#x27;b&#x27;"
    assert html(once) == once
    assert element("p", HOSTILE, element("b", "&")) == f"<p>{once}<b>&amp;</b></p>"
    assert joined(["<", Html("<br>")], ">") == "&lt;&gt;<br>"


def test_characters_that_nobody_sees_become_spaces() -> None:
    assert html("a\x00b\u202ec\x1b[31m\nd") == "a b c [31m\nd"


def test_attributes_are_escaped_and_may_be_absent() -> None:
    assert element("i", class_='"><b>', aria_label="x", id=None) == '<i class="&quot;&gt;&lt;b&gt;" aria-label="x"></i>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_a_table_has_headings_of_columns_and_rows() -> None:
    found = table(("a", "<"), [("x", 1), ("y", Html("<b>2</b>"))], caption="c & d")
    assert found.count('scope="col"') == found.count('scope="row"') == 2
    assert '<th scope="col">&lt;</th>' in found
    assert '<th scope="row">y</th><td><b>2</b></td>' in found
    assert "<caption>c &amp; d</caption>" in found
    assert found.startswith('<div class="scroll">')


def test_a_document_is_whole_and_may_load_nothing() -> None:
    page = document(f"t {HOSTILE}", "p { color: red }", element("p", "x"))
    assert page.startswith("<!doctype html>\n<html")
    assert "default-src 'none'" in page
    assert '<meta name="viewport"' in page
    assert f"<title>t {html(HOSTILE)}</title>" in page
    assert page.index(common_style()) < page.index("p { color: red }")
    assert "<p>x</p>" in page


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_ink_is_legible_on_its_ground(ground: str) -> None:
    """Body text at least 7 : 1 and quiet text at least 4.5 : 1 (WCAG's AAA and AA), on the page and on cards."""
    block = re.findall(r"--bg: [^}]*", common_style())[0 if ground == "light" else 1]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
    for behind in ("bg", "card"):
        assert contrast(colours["ink"], colours[behind]) >= 7.0
        assert contrast(colours["soft"], colours[behind]) >= 4.5


def contrast(a: str, b: str) -> float:
    """The ratio of WCAG 2: (lighter + 0.05) / (darker + 0.05) of relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
