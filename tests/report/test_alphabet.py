import pytest

from theorylab.report.alphabet import printable


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ηλ₀ → 2 − δ", "etalambda0 -> 2 - delta"),
        ("‖Θ‖ ∝ m⁻¹", "||theta|| ~ m^-^1"),
        ("Erdős", "Erdos"),
        ("日", "?"),
    ],
)
def test_letters_that_an_encoding_lacks_are_written_out(text, plain):
    assert printable(text, "ascii") == plain
    assert printable(text, "utf-8") == text


def test_letters_that_an_encoding_has_stay():
    assert printable("Erdős é ≤", "latin-1") == "Erdos é <="


def test_nothing_moves_the_cursor():
    assert printable("a\x1b[31mb\rc\nd\x07", "utf-8") == "a?[31mb c d?"


def test_an_unknown_encoding_gets_question_marks_not_errors():
    assert printable("é", "no-such-encoding") == "?"
