"""Figures inside a page: an SVG file becomes an element that minds its own business.

Several figures share one page, so every id gets the figure's name in front. Only shapes, text and
embedded pixels pass: no script, no style sheet, no link, nothing from elsewhere.
"""

import re
from xml.etree import ElementTree

from markupsafe import Markup

from .alphabet import printable

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_SHAPE = re.compile(
    "circle|clipPath|defs|desc|ellipse|g|image|line|linearGradient|marker|mask|path|pattern"
    "|polygon|polyline|radialGradient|rect|stop|svg|symbol|text|textPath|title|tspan|use"
)
_PROLOG = re.compile(r"\A\s*(<\?xml[^>]*\?>)?\s*(<!DOCTYPE[^>\[]*>)?")
_EMBEDDED = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*\Z")
_REFERENCE = re.compile(r"url\(\s*#([\w.:-]+)\s*\)")
_DEEPEST = 100  # matplotlib nests some ten elements; no shape is deeper than this
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)(?:pt|px)?\s*\Z")


def inline_figure(svg: str, name: str, title: str) -> Markup:
    """Make an SVG file an element of a page; what is no SVG gives nothing.

    Args:
        svg: The text of the file.
        name: Goes before every id; letters, digits and hyphens, unique in the page.
        title: What the figure shows, for those who cannot see it.

    Example:
        >>> inline_figure('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>', "a", "Loss")
        Markup('<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Loss" />')
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        raise ValueError(f"name must be letters, digits and hyphens, got {name!r}.")
    body = _PROLOG.sub("", svg, count=1)
    if "<!DOCTYPE" in body:  # one that declares entities, which may grow without bound
        return Markup()
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError):
        return Markup()
    if root.tag != f"{_SVG}svg":
        return Markup()
    size = _size(root)
    _clean(root, name)
    for attribute in ("width", "height", "style", "version", "id"):
        root.attrib.pop(attribute, None)
    frame = {"xmlns": _SVG.strip("{}"), "role": "img", "aria-label": printable(title, "utf-8")}
    if size is not None:
        width, height = size
        frame |= {"viewBox": root.get("viewBox", f"0 0 {width:g} {height:g}")}
        # What matplotlib says in a style sheet, which would reach out over the whole page.
        frame |= {"stroke-linejoin": "round", "style": f"--natural-width: {width:g}px"}
    root.attrib = {**frame, **{key: root.attrib[key] for key in root.attrib if key not in frame}}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _size(root: ElementTree.Element) -> tuple[float, float] | None:
    """The width and height that a figure asks for, if it says so in plain lengths."""
    width, height = (_LENGTH.match(root.get(side, "")) for side in ("width", "height"))
    return (float(width[1]), float(height[1])) if width and height else None


def _clean(element: ElementTree.Element, name: str, depth: int = 0) -> None:
    """Keep shapes and harmless attributes only; put the name before ids and references to them."""
    element.tag = element.tag.removeprefix(_SVG)
    element.attrib = {
        "href" if key == _XLINK_HREF else key: safe
        for key, value in element.attrib.items()
        if (safe := _safe(key, value, name)) is not None
    }
    for child in list(element):
        known = isinstance(child.tag, str) and child.tag.startswith(_SVG)
        if known and depth < _DEEPEST and _SHAPE.fullmatch(child.tag.removeprefix(_SVG)):
            _clean(child, name, depth + 1)
        else:
            element.remove(child)


def _safe(key: str, value: str, name: str) -> str | None:
    """The value that an attribute may keep, or None if it must go."""
    if key == "id":
        return f"{name}-{value}"
    if key in ("href", _XLINK_HREF):
        if value.startswith("#"):
            return f"#{name}-{value[1:]}"
        return value if _EMBEDDED.match(value) else None
    value = _REFERENCE.sub(lambda match: f"url(#{name}-{match[1]})", value)
    foreign = re.search(r"url\((?!#)|//|\\|image-set|@import", value, re.IGNORECASE)
    if key.startswith(("{", "on")) or key == "class" or foreign:
        return None
    return value
