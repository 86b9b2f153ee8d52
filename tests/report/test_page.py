import re
from html.parser import HTMLParser

import pytest

from theorylab.report.page import render_page, setting, write_page

VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser would, and complains where a browser would guess."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.attributes, self.words = set(), [], [], []
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        self.tags.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=["none", "one", "hostile", "many"])
def outcomes(request, outcome, hostile, make):
    return {
        "none": [],
        "one": [outcome],
        "hostile": [hostile, outcome, hostile],
        "many": [make(experiment=f"dynamics/number_{i}") for i in range(40)] + [make(judged=[])],
    }[request.param]


def test_a_page_is_whole_and_its_ids_are_unique(outcomes):
    """Oracle: a parser that wants every tag closed in order."""
    page = Reader(render_page(outcomes))
    assert len(set(page.ids)) == len(page.ids)
    links = [value for _, name, value in page.attributes if name == "href"]
    assert {link[1:] for link in links if link.startswith("#")} <= set(page.ids)
    labels = {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert labels <= set(page.ids)
    assert {"html", "head", "header", "main", "footer"} <= page.tags


def test_a_page_asks_nothing_of_the_network_and_runs_nothing(outcomes):
    text = render_page(outcomes)
    page = Reader(text)
    assert not page.tags & {"script", "iframe", "img", "object", "embed", "base", "form", "audio"}
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in {"src", "srcset", "action", "data", "poster", "background"}
        if name == "href":
            assert value.startswith(("#", "data:"))
        if name != "xmlns":
            assert not re.search(r"https?://|url\((?!#)|javascript:", value) or "-label" in name
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_a_page_says_its_language_letters_and_policy(outcome):
    page = Reader(render_page([outcome]))
    assert ("html", "lang", "en") in page.attributes
    assert ("meta", "charset", "utf-8") in page.attributes
    assert ("meta", "content", "width=device-width, initial-scale=1") in page.attributes
    policy = next(value for _, _, value in page.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_a_page_holds_no_control_characters(hostile):
    text = render_page([hostile])
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_text_from_everywhere_is_escaped(hostile):
    """Oracle: the parser finds the text in the words of the page, not among its tags."""
    page = Reader(render_page([hostile]))
    script = "<script>alert(\"1\")</script> 'x' & <img src=http://evil.example/a>"
    # name, title and statement twice, preset three times, method, setting and environment, key
    assert page.text.count(script) == 15


def test_a_page_shows_every_number_verdict_and_source(outcome):
    text = Reader(render_page([outcome])).text
    for words in (
        "4 supported 1 refuted 1 inconclusive",
        "✗ 1 verdict is not as expected.",
        "dynamics/catapult · 4 supported · 1 refuted · 1 inconclusive · ✗ 1 not as expected",
        "0.98 [0.95, 1.01] sign interval over 10 seeds, 97.9 % in [0.9, 1.1] supported ✓ as",
        "3.1e-15 exact ≤ 1e-12 supported ✓ as expected",
        "inconclusive ✗ expected supported",
        "refuted ✓ as expected",
        "control A small step shows no peak.",
        "as printed P ≤ exp(-δ²μ/3) for δ > 1.",
        "as corrected P ≤ exp(-δμ/3) for δ > 1.",
        "zhu · nqm-2d-map · Eqs 3.11–3.14, Thm 3.3.1",
        "L. Zhu, Toward Understanding the Dynamics",
        "ratios 1.0,3.0,5.0",
        "jax 0.10.2",
        "default preset, 21 s",
        "Stored under 3fa2c1d09b",
    ):
        assert words in text, words


def test_a_page_says_what_the_experiment_is_about(make):
    """Paragraphs, code and formulas as they stand; text is only text."""
    about = "With `x` < 1 and\nη small:\n\n    a ← <b>\n      c\n\nSource: zhu."
    text = render_page([make(description=about)])
    assert "<p>With <code>x</code> &lt; 1 and η small:</p>" in text
    assert "<pre>a ← &lt;b&gt;\n  c</pre>\n<p>Source: zhu.</p>" in text
    assert '<div class="about">' not in render_page([make()])


def test_runs_of_one_experiment_are_told_apart(make):
    """By preset, by the fields in which they differ, by their keys if by nothing else."""
    one, two = make(config={"width": 8, "seed": 0}), make(config={"width": 9, "seed": 0})
    single = make("bias/other"), make("bias/small", preset="smoke")
    text = Reader(render_page([one, two, *single])).text
    for words in ("catapult (default preset, width 8)", "catapult (default preset, width 9)"):
        assert text.count(words) == 2  # navigation and heading
    assert "bias/other (" not in text
    assert text.count("bias/small (smoke preset)") == 2
    text = Reader(render_page([make(key="abcdef01"), make(key="abcdee02")])).text
    assert text.count("(default preset, abcdef)") == 2


def test_why_nothing_is_concluded_is_told(make, judge):
    claims = [judge(measured=0.1, low=-1.0, high=1.0)]
    text = Reader(render_page([make(judged=claims, failure="the figure failed: no paper")])).text
    assert "✗ expected supported Inconclusive: the interval lies partly inside" in text
    assert "✗ the figure failed: no paper" in text


def test_what_is_not_judged_or_not_reproduced_says_why(make, unusual):
    text = Reader(render_page([make(judged=unusual)])).text
    for words in (
        "not judged here Not judged here: needs width >= 1000.",
        "refuted not reproduced Expected refuted: Two layers, not four.",
        "the loss grows",
        "found here, not in the source",
        "1 not judged",
    ):
        assert words in text, words


def test_a_page_without_surprises_says_so(make, judge):
    text = Reader(render_page([make(judged=[judge()])])).text
    assert "✓ Every verdict is as expected." in text
    assert "✗" not in text


def test_the_same_outcomes_give_the_same_bytes(tmp_path, outcome, hostile):
    first, second = (write_page([outcome, hostile], tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_page_replaces_the_old_one_whole(tmp_path, outcome, monkeypatch):
    path = write_page([outcome], tmp_path / "report.html")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_page([], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_setting_is_written_as_the_command_line_takes_it():
    values = [[], [1, 2], [0.5, 1e-08], False, -3, 2.5, "half_sum"]
    texts = ["", "1,2", "0.5,1e-08", "false", "-3", "2.5", "half_sum"]
    assert [setting(value) for value in values] == texts
