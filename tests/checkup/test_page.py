"""The page of a card is whole, reaches for nothing, and can be read without seeing it."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from theorylab.checkup.page import card_html, render_card

VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser would, and complains where a browser would guess."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(params=["card", "hostile", "empty", "numpy_numbers"])
def any_card(request):
    return request.getfixturevalue(request.param)


def test_a_page_is_whole_and_its_links_lead_somewhere(any_card):
    """Oracle: a parser that wants every tag closed in order."""
    page = Reader(render_card(any_card))
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    inner = [link[1:] for link in page.values("href") if link.startswith("#")]
    assert set(inner) | set(page.values("aria-labelledby")) <= set(ids)
    assert {"html", "head", "header", "main", "footer", "h1"} <= set(page.tags)


def test_a_page_asks_nothing_of_the_network_and_runs_nothing(any_card):
    text = render_card(any_card)
    page = Reader(text)
    assert not set(page.tags) & {"script", "iframe", "img", "object", "embed", "base", "form"}
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in {"src", "srcset", "action", "data", "poster", "background"}
        if name == "href":
            assert value.startswith(("#", "data:"))
        if name not in ("xmlns", "aria-label"):
            assert not re.search(r"https?://|url\((?!#)|javascript:", value)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_a_page_says_every_row_its_theorem_and_its_experiment(card):
    page = Reader(render_card(card))
    for row in card.rows:
        assert row.measure.title in page.text
        assert (row.reason if row.reading is None else row.reading.meaning) in page.text
        assert str(row.measure.source) in page.text
        assert f"theorylab run {row.measure.experiment}" in page.text
    for sentence in card.verdict:
        assert sentence.words in page.text
    assert "Gradient descent sharpens a network" in page.text  # the experiment's own title
    assert "S. Arora et al." in page.text
    assert "math" in page.tags  # its formula
    assert "12.3 ± 4e-4" in page.text


def test_figures_say_the_claim_with_its_number_to_those_who_cannot_see_them(card):
    page = Reader(render_card(card))
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert labels == [
        "top of the Hessian's spectrum: 8, estimate. "
        "3 directions stand out of the bulk; training stays among them",
        "density of the Hessian's spectrum: 0.9 ± 0.03, 95 %. 90 % of the eigenvalues are nearly 0",
    ]
    assert page.values("role").count("img") == 2


def test_tables_have_headers_with_scopes_and_headings_come_in_order(card):
    text = render_card(card)
    page = Reader(text)
    headers = re.findall(r"<th [^>]*>", text)
    assert headers
    assert all('scope="' in header for header in headers)
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_the_same_card_gives_the_same_bytes(card):
    assert render_card(card) == render_card(card)


def test_a_page_is_one_file(card, tmp_path):
    path = card.page(tmp_path / "card.html")
    assert path.read_text(encoding="utf-8") == render_card(card)
    assert [each.name for each in tmp_path.iterdir()] == ["card.html"]


def test_dark_and_print_have_their_styles(card):
    style = render_card(card).partition("<style>")[2].partition("</style>")[0]
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert "max-width: 44rem" in style


def test_a_notebook_shows_a_table_without_colours_of_its_own(any_card):
    text = card_html(any_card)
    page = Reader(text)
    assert "script" not in page.tags
    assert "color: inherit" in text
    for style in page.values("style"):
        assert not re.search(r"#[0-9a-f]{3}|rgb|background: (?!transparent)", style)
    assert any_card._repr_html_() == text


def test_a_notebook_says_every_row(card):
    page = Reader(card_html(card))
    for row in card.rows:
        assert row.measure.title in page.text
        assert (row.reason if row.reading is None else row.reading.meaning) in page.text
