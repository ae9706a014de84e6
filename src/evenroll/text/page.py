"""Web pages that are one file: text is escaped, nothing is fetched, and there is one style for all pages of this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

# No page may load or run anything, whatever came into it: its style and its drawings are all inside.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
EMPTY = frozenset(("meta", "link", "br", "hr", "img"))  # elements of HTML that have no end


class Html(str):
    """Text that is HTML already. All other text is escaped before it enters a page."""

    __slots__ = ()


def html(text: object) -> Html:
    """Any text as HTML. Characters that nobody would see, such as marks of writing direction, become spaces."""
    if isinstance(text, Html):
        return text
    return Html(escape("".join(c if c.isprintable() or c == "\n" else " " for c in str(text))))


def joined(parts: Iterable[object], between: str = "") -> Html:
    return Html(html(between).join(html(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """`<tag …>children</tag>`. An attribute that is None is left out; `class_` is class, and `aria_label` is aria-label."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html(value)}"' for name, value in attributes.items() if value is not None
    )
    inside = joined(children)
    return Html(f"<{tag}{written}>" if tag in EMPTY else f"<{tag}{written}>{inside}</{tag}>")


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], caption: str | None = None) -> Html:
    """A table whose first row and first column are headings. It scrolls by itself where it is wider than the page."""
    top = element("tr", *(element("th", head, scope="col") for head in heads))
    body = [element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows]
    said = [element("caption", caption)] if caption is not None else []
    whole = element("table", *said, element("thead", top), element("tbody", *body))
    return element("div", whole, class_="scroll")


def common_style() -> str:
    """The style sheet that all pages begin with."""
    return (resources.files("evenroll.text") / "data" / "page.css").read_text()


def document(title: str, style: str, *body: object) -> str:
    """The text of a whole page. `style` follows the common style sheet, and must not come from outside."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(POLICY)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        Html(f"<style>{common_style()}{style}</style>"),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n"
