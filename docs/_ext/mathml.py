"""Formulas in pages: LaTeX ─► MathML while the page is built, so no script draws them later.

`$x^2$` and ```` ```{math} ```` blocks go through the converter of the reports. A formula that it
cannot read is a warning, and with `-W` an error: a page never shows LaTeX where it meant a formula.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from theorylab.report.mathml import formula

LOGGER = logging.getLogger(__name__)


def inline_math(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    writer.body.append(_rendered(node, block=False))
    raise nodes.SkipNode


def block_math(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="formula">{_rendered(node, block=True)}</div>')
    raise nodes.SkipNode


def _rendered(node: nodes.Element, block: bool) -> str:
    text = " ".join(node.astext().split())
    rendered = formula(text, block)
    if not rendered.startswith("<math"):
        LOGGER.warning("a formula must be LaTeX that MathML has, got %r", text, location=node)
    return str(rendered)


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer to Sphinx; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
