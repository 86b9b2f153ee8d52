import pytest

from theorylab.claims.regime import fields_of, fulfils

CONFIG = {"width": 512, "widths": (64, 128), "inputs": "images", "rate": 0.1, "exact": True}


@pytest.mark.parametrize(
    ("regime", "expected"),
    [
        ("", True),
        ("width >= 512", True),
        ("width > 512", False),
        ("max(widths) >= 128 and len(widths) > 1", True),
        ("widths[-1] == 64 or min(widths) < 2**5", False),
        ("inputs in ('images', 'sphere')", True),
        ("not exact", False),
        ("1 < width / 100 - 2 <= 3.2 and rate * -1 < 0", True),
    ],
)
def test_a_regime_is_a_condition_on_fields(regime, expected):
    assert fulfils(CONFIG, regime) is expected


@pytest.mark.parametrize(
    ("regime", "message"),
    [
        ("depth > 2", "must speak of fields of Config, got 'depth'"),
        ("width >", "must be a condition in Python"),
        ("open('x') or True", "must speak of fields of Config, got 'open'"),
        ("width('x')", "may compare and compute"),
        ("widths.count(3) > 1", "may compare and compute"),
        ("[width]", "may compare and compute"),
        ("width is None", "may compare and compute"),
        ("width + 1", "must be true or false"),
        ("inputs > 3", "must be computable"),
        ("widths[7] > 3", "must be computable"),
        ("width / 0 > 1", "must be computable"),
    ],
)
def test_what_is_no_condition_is_refused(regime, message):
    with pytest.raises(ValueError, match=message):
        fulfils(CONFIG, regime)


def test_functions_are_no_fields():
    assert fields_of("len(widths) > 1 and width > 2") == {"widths", "width"}
