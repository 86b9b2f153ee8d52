"""What a terminal can print: the text as it is, or the nearest that its encoding knows.

    "λ₀ ≤ 2 ✓"  ─►  "lambda0 <= 2 ok"       on a terminal that speaks ASCII only

Greek letters become their names, the rest its nearest; what has none becomes a question mark.
"""

import io
import unicodedata
from typing import IO, TextIO, cast

from rich.console import Console

Stream = TextIO | io.TextIOBase  # what `sys.stdout` is called, and what it is

_NEAREST = {
    **{"✓": "ok", "✗": "!!", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "≪": "<<", "≫": ">>"},
    **{"∞": "inf", "·": "-", "–": "-", "—": "-", "−": "-", "×": "x", "√": "sqrt", "∝": "~"},
    **{"→": "->", "←": "<-", "─►": "->", "…": "...", "‘": "'", "’": "'", "“": '"', "”": '"'},
    **{"∂": "d", "∇": "grad ", "∈": "in", "∑": "sum", "∏": "prod", "∫": "int", "‖": "||"},
    **{"λ": "lambda", "Λ": "Lambda"},  # which Unicode spells LAMDA
    **{"ℓ": "l", "±": "+-", "⟨": "<", "⟩": ">", "⊤": "T", "°": " deg", "§": "Sec. "},
}


def printable(text: str, encoding: str) -> str:
    """Write a text in letters that an encoding has, without anything that moves the cursor.

    Example:
        >>> printable("λ₀ ≤ 2²", "ascii")
        'lambda0 <= 2^2'
        >>> printable("λ₀ ≤ 2²", "utf-8")
        'λ₀ ≤ 2²'
    """
    return "".join(_letter(letter, encoding) for letter in text)


def console(file: Stream) -> Console:
    """A stream to print on, on which text is text and never markup."""
    return Console(file=cast(IO[str], file), highlight=False, markup=False, emoji=False)


def can_print(text: str, encoding: str) -> bool:
    """Whether an encoding has every letter of a text."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _letter(letter: str, encoding: str) -> str:
    """One letter: itself, its nearest, its Greek name, its plain form, or a question mark."""
    if letter.isspace():
        return " "
    if not letter.isprintable():
        return "?"
    if can_print(letter, encoding):
        return letter
    name = unicodedata.name(letter, "")
    plain = unicodedata.normalize("NFKD", letter)
    for candidate in (
        _NEAREST.get(letter, ""),
        f"^{_NEAREST.get(plain, plain)}" if name.startswith("SUPERSCRIPT") else "",
        name.rsplit(" ", 1)[-1].lower() if name.startswith("GREEK") else "",
        "".join(part for part in plain if not unicodedata.combining(part)),
    ):
        if candidate and can_print(candidate, encoding):
            return candidate
    return "?"
