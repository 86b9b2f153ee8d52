"""A number as a person reads it: four digits, and an exponent only where it saves letters.

Nothing heavy is imported, so that the command line may write numbers too.
"""

import math

DIGITS = 4


def number(value: float, digits: int = DIGITS) -> str:
    """Write a number with so many significant digits, and whole numbers below a million whole.

    Example:
        >>> number(0.123456), number(5.8e-27), number(20_000.0), number(-math.inf), number(2.5e9)
        ('0.1235', '5.8e-27', '20000', '-∞', '2.5e9')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"
