import re
from xml.etree import ElementTree

import pytest

from theorylab.report.figures import inline_figure

SVG = "{http://www.w3.org/2000/svg}"


def test_ids_and_references_get_the_name_in_front(outcome):
    text = inline_figure(outcome.figure, "first", "Loss")
    ids = set(re.findall(r' id="([^"]+)"', text))
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert ids == {"first-axes_1", "first-m1", "first-p1"}
    assert references == {"first-m1", "first-p1", "first-p2"}


def test_two_figures_share_no_id(outcome):
    first, second = (inline_figure(outcome.figure, name, "") for name in ("first", "second"))
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (first, second)]
    assert not ids[0] & ids[1]


def test_a_figure_stands_alone_and_says_what_it_shows(outcome):
    root = ElementTree.fromstring(inline_figure(outcome.figure, "a", 'The "loss" <fell>'))
    assert root.get("aria-label") == 'The "loss" <fell>'
    assert root.get("viewBox") == "0 0 604.8 244.8"
    assert root.get("width") is None  # the page decides
    assert not [element for element in root.iter() if element.tag == f"{SVG}style"]


def test_the_prolog_and_the_metadata_go_but_pixels_stay(outcome):
    text = inline_figure(outcome.figure, "a", "")
    assert text.startswith("<svg ")
    assert "DOCTYPE" not in text
    assert "matplotlib.org" not in text
    assert "data:image/png;base64,iVBORw0KGgo=" in text


def test_nothing_dangerous_passes(hostile):
    text = inline_figure(hostile.figure, "a", "")
    text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    words = ("script>a", "onload", "onclick", "evil", "javascript", "iframe", "@import", "svg+")
    for word in words:
        assert word not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no figure",
        "<svg",
        "<html/>",
        '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
    ],
)
def test_what_is_no_figure_gives_nothing(text):
    assert inline_figure(text, "a", "") == ""


def test_a_name_must_be_a_plain_word():
    with pytest.raises(ValueError, match="name must be letters, digits and hyphens, got 'a b'"):
        inline_figure("<svg/>", "a b", "")
