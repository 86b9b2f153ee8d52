"""Formulas for a page: LaTeX ─► MathML, which browsers draw without scripts or fonts.

A formula that cannot be read is shown as it is written. What comes out holds nothing but
mathematics: the converter passes links, styles and foreign tags through; here they end.
"""

import html
import re
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import convert_to_element
from markupsafe import Markup

from .alphabet import printable

_TAG = re.compile(
    "math|menclose|mfrac|mi|mn|mo|mover|mpadded|mphantom|mroot|mrow|ms|mspace|msqrt|mstyle|msub"
    "|msubsup|msup|mtable|mtd|mtext|mtr|munder|munderover"
)
_ATTRIBUTE = re.compile(
    "accent|accentunder|columnalign|columnlines|columnspacing|depth|display|displaystyle|fence|form"
    "|height|largeop|linethickness|lspace|mathvariant|maxsize|minsize|movablelimits|notation"
    "|rowlines|rowspacing|rspace|scriptlevel|separator|stretchy|symmetric|voffset|width|xmlns"
)
_NUM_CHILDREN = {
    **dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
}


def formula(latex: str, block: bool = False) -> Markup:
    r"""Write a formula as MathML, or as code where it is broken; nothing stays nothing.

    Args:
        latex: One line of LaTeX, without dollar signs.
        block: Whether the formula stands on a line of its own.

    Example:
        >>> "<msup>" in formula("x^2")
        True
        >>> formula("x^")
        Markup('<code>x^</code>')
    """
    latex = printable(latex, "utf-8")
    if not latex.strip():
        return Markup()
    try:
        known = re.sub(r"\\arg(?![A-Za-z])", r"\\operatorname{arg}", latex)  # the one it forgot
        root = convert_to_element(known, display="block" if block else "inline")
        _clean(root)
    except Exception:  # the converter breaks on bad LaTeX in many ways, and a page never breaks
        return Markup("<code>{}</code>").format(latex)
    return Markup(tostring(root, encoding="unicode"))


def _clean(element: Element) -> None:
    """Decode the text, drop what is no mathematics; raise ValueError on what makes no sense."""
    tag = element.tag
    if not _TAG.fullmatch(tag) or len(element) != _NUM_CHILDREN.get(tag, len(element)):
        raise ValueError(f"a formula needs whole MathML elements, got {tag}.")
    for name in list(element.attrib):
        if not _ATTRIBUTE.fullmatch(name):
            del element.attrib[name]
    element.text = html.unescape(element.text or "")
    if element.text.startswith("\\"):  # a command that the converter does not know
        raise ValueError(f"a formula needs known commands, got {element.text}.")
    for child in element:
        _clean(child)
