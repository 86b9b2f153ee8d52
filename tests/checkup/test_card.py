"""The card in a terminal, a notebook, a table: what is there is said, and nothing else."""

import io
import json
import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.text import Text

from theorylab.checkup import Card, Reading, examine
from theorylab.checkup.figures import drawn_rows
from theorylab.checkup.terminal import print_card
from theorylab.checkup.words import value_of


class Terminal(io.StringIO):
    """A terminal of some width that speaks an encoding."""

    encoding = "utf-8"

    def isatty(self):
        return True


def printed(card, monkeypatch, columns=100, file=None):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO() if file is None else file
    print_card(card, file)
    return file.getvalue()


@pytest.mark.parametrize("columns", [40, 72, 109, 110, 160, 240])
def test_everything_is_printed_at_every_width(card, columns, monkeypatch):
    """Oracle: the card itself. Lines fold, so spaces do not count."""
    text = printed(card, monkeypatch, columns)
    assert max(map(len, text.splitlines())) <= columns
    shown = "".join(text.split())
    if columns < 110 or columns >= 160:  # folded cells of a table interleave with the next one's
        for row in card.rows:
            assert "".join(row.measure.title.split()) in shown
            about = row.reason if row.reading is None else row.reading.meaning
            assert "".join(about.split()) in shown
    for sentence in card.verdict:
        assert "".join(sentence.words.split()) in shown


def test_the_verdict_stands_above_the_rows_and_groups_are_headings(card, monkeypatch):
    lines = [line.strip() for line in printed(card, monkeypatch).splitlines()]
    places = [lines.index(heading) for heading in ("Learning rate", "Curvature", "Features")]
    assert places == sorted(places)
    assert lines.index(f"· {card.verdict[0].words}") < places[0]


def test_a_row_without_a_number_says_what_to_pass_or_what_forces_it(card, monkeypatch):
    text = printed(card, monkeypatch)
    assert "not measured: pass batch_size=" in text
    assert 'skipped: it would take about 300 s; force="tangent_bound" computes it' in text
    assert "failed: ValueError: no layer has weights" in text
    assert "theorylab run dynamics/edge_of_stability" in text
    assert "arora · sharpness · §2.6" in text
    assert "phase: edge; learning rate: 0.1652\n" in text  # and nothing of what is empty


def test_colours_are_for_terminals_only(card, monkeypatch):
    """Oracle: rich's reader of escape codes; without them the text is the pipe's."""
    coloured = printed(card, monkeypatch, file=Terminal())
    assert "\x1b[" in coloured
    plain = printed(card, monkeypatch)
    assert "\x1b" not in plain
    lines = [Text.from_ansi(line).plain.rstrip() for line in coloured.splitlines()]
    assert lines == plain.splitlines()
    monkeypatch.setenv("NO_COLOR", "1")
    codes = printed(card, monkeypatch, file=Terminal())
    assert not any(f"\x1b[{colour}" in codes for colour in ("31", "33", "36", "1;36"))


def test_a_terminal_of_ascii_gets_ascii(card, monkeypatch):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setenv("COLUMNS", "100")
    print_card(card, file)
    file.flush()
    text = raw.getvalue().decode("ascii")
    assert "12.3 +- 4e-4" in text
    assert "?" not in text


def test_text_is_never_markup_nor_moves_the_cursor(hostile, monkeypatch):
    text = printed(hostile, monkeypatch, 300)
    assert "\x1b" not in text
    assert "[bold]" in text


def test_print_is_the_same_as_show(card, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "90")
    print(card)
    first = capsys.readouterr().out
    card.show()
    assert capsys.readouterr().out == first


def test_repr_is_one_line(card, empty):
    assert repr(card) == (
        "<Card of 6 of 9 rows measured, 1 missing, 1 skipped, 1 failed: edge, rich>"
    )
    assert repr(empty) == "<Card of 0 of 0 rows measured>"


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (12.3, 12.3, 12.3004),
        (0.5, 0.4, 0.61),
        (0.0, 0.0, 0.004),
        (3.1, -math.inf, 3.1),
        (1.0, 1.0, 1.0),
    ],
)
def test_an_interval_that_is_written_holds_the_interval(value, low, high):
    """Oracle: the text, read back, to the rounding of four digits."""
    text = value_of(Reading(value, low, high, "95 %", "", ""))
    if "±" in text:
        number, error = map(float, text.split(" ± "))
        ends = number - error, number + error
    elif " in " in text:
        ends = [float(end.replace("∞", "inf")) for end in text.split(" in ")[1][1:-1].split(", ")]
    else:
        ends = float(text), float(text)
    slack = 1e-3 * abs(value)
    assert ends[0] <= low + slack
    assert ends[1] >= high - slack


def test_json_has_every_row_and_no_nan(card, hostile, empty):
    """Oracle: a strict reader of JSON."""
    for each in (card, hostile, empty):
        page = json.loads(each.to_json(), parse_constant=pytest.fail)
        assert [row["name"] for row in page["rows"]] == [row.name for row in each.rows]
    page = json.loads(card.to_json())
    sharpness, stability, missing, spectral = page["rows"][:4]
    assert sharpness["value"] == 12.3
    assert (sharpness["low"], sharpness["high"]) == (12.3, 12.3004)
    assert (sharpness["certainty"], sharpness["products"]) == ("certified", 23)
    assert sharpness["source"] == {"key": "arora", "system": "sharpness", "place": "§2.6"}
    assert stability["details"] == {"phase": "edge", "learning rate": 0.1652, "flagged": ""}
    assert (missing["status"], missing["reason"]) == ("missing", "pass batch_size=")
    assert missing["value"] is missing["details"] is None
    assert spectral["low"] is spectral["details"]["bulk edge"] is None
    assert page["verdict"][0]["rule"] == "edge"
    assert page["about"]["parameters"] == 12345


def test_numbers_of_numpy_are_shown_everywhere(numpy_numbers, tmp_path):
    row = json.loads(numpy_numbers.to_json())["rows"][0]
    assert (row["value"], row["products"]) == (0.5, 7)
    assert row["details"] == {"rank": 3, "share": 0.25}
    assert "0.5 ± 0.1" in str(numpy_numbers)
    assert "0.5 ± 0.1" in numpy_numbers._repr_html_()
    assert numpy_numbers.page(tmp_path / "card.html").is_file()


def test_pandas_has_a_row_each(card, empty):
    pytest.importorskip("pandas")
    table = card.to_pandas()
    assert len(table) == len(card.rows)
    assert table["name"].tolist() == [row.name for row in card.rows]
    assert table["value"][0] == 12.3
    assert np.isnan(table["value"][2])
    assert table["reason"][2] == "pass batch_size="
    assert empty.to_pandas().empty


def test_plot_has_a_panel_for_each_row_that_draws(card, hostile, empty):
    """A measure whose figure fails has none, and costs the others nothing."""
    figure = card.plot()
    assert isinstance(figure, Figure)
    titles = [axes.get_title() for axes in figure.axes if axes.axison]
    assert titles == ["top of the Hessian's spectrum", "density of the Hessian's spectrum"]
    assert drawn_rows(hostile.rows) == []
    for each in (hostile, empty):
        with pytest.raises(ValueError, match="must have a row with curves to be drawn"):
            each.plot()


def test_examine_says_how_far_it_is():
    """Oracle: the listener; what a measure reports itself is a part of its share."""
    import jax.numpy as jnp

    from theorylab.progress import listening

    heard = []
    x = jnp.eye(4)
    with listening(lambda what, done: heard.append((what, done))):
        card = examine(lambda w, x: x @ w, jnp.ones((4, 1)), x, x[:, 0], loss="mse")
    assert isinstance(card, Card)
    places = [done for _, done in heard]
    assert places == sorted(places)
    assert {what for what, _ in heard} == {row.measure.title for row in card.rows}
