import io

import pytest

from theorylab.report.terminal import print_claims


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def printed(outcomes, file=None):
    file = io.StringIO() if file is None else file
    print_claims(outcomes, file)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 119, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(outcome, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed([outcome, outcome])
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    letters = "".join(text.split())
    for judged in outcome.judged:
        assert judged.finding.verdict in letters
    assert not any(line.endswith(" ") for line in text.splitlines())


@pytest.mark.parametrize("width", [80, 160])
def test_every_claim_shows_its_numbers_verdict_and_source(outcome, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = " ".join(printed([outcome]).split())
    for words in (
        "dynamics/catapult The catapult",
        "(default, 21 s)",
        "0.98",
        "[0.95, 1.01]",
        "in [0.9, 1.1]",
        "≤ 1e-12",
        "✓ as expected",
        "✗ expected supported",
        "(as printed)",
        "(control)",
        "zhu · nqm-2d-map ·",
        "6 claims: 4 supported, 1 refuted, 1 inconclusive.",
    ):
        assert words in text, words


@pytest.mark.parametrize("width", [80, 160])
def test_what_is_inconclusive_says_why(make, judge, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    inf, few = float("inf"), "2 seeds, at least 6 are needed"
    claims = [judge("Few.", 0.1, -inf, inf, method=few), judge("Wide.", 0.1, -1.0, 1.0)]
    text = " ".join(printed([make(judged=claims)]).split())
    assert f"Inconclusive: {few}." in text
    assert text.count("Inconclusive: ") == 2
    assert "Inconclusive: the interval lies partly inside" in text
    assert "Inconclusive:" not in printed([make(judged=[judge()])])


@pytest.mark.parametrize("width", [80, 160])
def test_what_is_not_judged_or_not_reproduced_says_why(make, unusual, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = " ".join(printed([make(judged=unusual)]).split())
    for words in (
        "not judged",
        "Not judged here: needs width >= 1000.",
        "not reproduced",
        "Expected refuted: Two layers, not four.",
        "“the loss grows”",
        "(found here, not in the source)",
        "What is demanded is the lab's: set on seeds 100 to 119.",
        "3 claims: 1 supported, 1 refuted, 0 inconclusive, 1 not judged"
        " (1 of the source's not reproduced). Every verdict is as expected.",
    ):
        assert words in text, words


def test_a_figure_that_failed_is_told(make):
    assert "✗ the figure failed: no paper" in printed([make(failure="the figure failed: no paper")])


def test_an_outcome_from_the_store_says_so(make):
    assert "from the store" in printed([make(stored=True)])


def test_colours_are_for_terminals(outcome, monkeypatch):
    assert "\x1b[32msupported" in printed([outcome], Terminal())
    assert "\x1b" not in printed([outcome])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in printed([outcome], Terminal())


@pytest.mark.parametrize("width", ["80", "160"])
def test_a_stream_without_unicode_gets_letters_that_it_has(outcome, hostile, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    print_claims([outcome, hostile], file)
    file.flush()
    assert b"<= 1e-12" in raw.getvalue()
    assert b"delta > 1" in raw.getvalue()


def test_hostile_text_is_only_text(hostile):
    text = printed([hostile], Terminal())
    assert "[bold red]big[/]" in text
    assert "\x1b[31mred" not in text
    assert "NaN" in text


def test_no_outcome_is_no_table():
    assert printed([]) == "No claim was tested.\n"


def test_the_same_outcomes_give_the_same_text(outcome, hostile):
    assert printed([outcome, hostile]) == printed([outcome, hostile])
