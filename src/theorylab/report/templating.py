"""Templates for pages: everything is escaped, and nothing that HTML forbids passes."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .alphabet import printable


def templates(*packages: str) -> Environment:
    """The templates of some packages, each in its folder `templates`; the first that has one wins.

    Args:
        packages: Such as "theorylab.report".

    Example:
        >>> templates("theorylab.report").from_string("{{ text }}").render(text="a < b")
        'a &lt; b'
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_letters,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _letters(value: Any) -> Any:
    """Text without control characters, which HTML forbids even when they are escaped."""
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable(value, "utf-8") if plain else value
