from xml.etree import ElementTree

import pytest

from theorylab.experiments.tree import EXPERIMENTS
from theorylab.report.mathml import formula


@pytest.mark.parametrize(
    "latex",
    [
        r"u' = (1 - v + u + w)^2 u",
        r"\|\hat\Theta_m - \Theta_\infty\| = O(m^{-1/2})",
        r"\Pr[X \ge (1+\delta)\mu] \le e^{-\delta^2\mu/3} \quad (\delta > 1)",
        r"\sum_{i=1}^{n} \frac{\partial f}{\partial \theta_i} \in \mathbb{R}^d",
        r"\arg\min_{\beta : X\beta = y} R_\alpha(\beta), \quad R = \sqrt{\beta^2 + 4\alpha^4}",
        r"\begin{pmatrix} a & b \\ c & d \end{pmatrix} \to \text{if } x < 0",
    ],
)
@pytest.mark.parametrize("block", [True, False])
def test_a_formula_becomes_well_formed_mathml(latex, block):
    """Oracle: an XML parser."""
    root = ElementTree.fromstring(formula(latex, block))
    assert root.tag == "{http://www.w3.org/1998/Math/MathML}math"
    assert root.get("display") == ("block" if block else "inline")


def test_the_letters_of_a_formula_are_the_ones_written():
    root = ElementTree.fromstring(formula(r"\lambda_0 \leq 2/\eta \text{ if } a<b"))
    assert "".join("".join(root.itertext()).split()) == "λ0≤2/ηifa<b".replace(" ", "")


@pytest.mark.parametrize(
    "latex", [r"\frac{a", "x^", r"\begin{foo}", r"\left(", r"\nosuch{a}", "a^b^c"]
)
def test_a_broken_formula_is_shown_as_it_is_written(latex):
    assert formula(latex) == f"<code>{latex}</code>"


@pytest.mark.parametrize("latex", ["", "  ", "\n"])
def test_no_formula_is_nothing(latex):
    assert formula(latex) == ""


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{<script>alert(1)</script>}",
        r"\frac{<script>alert(1)</script>",
        r"\text{&lt;script>alert(1)</script>}",
        r"\mathrm{</math><script>alert(1)</script>}",
        r"\href{javascript:alert(1)}{x}",
        r"\style{background:url(http://evil.example)}{x}",
        r"\color{red}{x}",
        r"\class{a}{x}",
    ],
)
def test_nothing_but_mathematics_comes_out(latex):
    """Oracle: an XML parser that lists every tag and attribute."""
    elements = list(ElementTree.fromstring(formula(latex)).iter())
    assert not any("script" in element.tag for element in elements)
    names = {name for element in elements for name in element.attrib}
    assert names <= {"display", "stretchy", "mathvariant", "fence", "form"}


def test_a_tag_that_is_no_mathematics_makes_a_formula_broken(monkeypatch):
    root = ElementTree.fromstring("<math><script>alert(1)</script></math>")
    monkeypatch.setattr("theorylab.report.mathml.convert_to_element", lambda *_, **__: root)
    assert formula("x") == "<code>x</code>"


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_formula_of_an_experiment_can_be_read(name):
    entry = EXPERIMENTS.entry(name)
    for latex in (entry.formula, *(claim.formula for claim in entry.claims)):
        assert not formula(latex).startswith("<code>"), latex
