"""The atlas in a browser: what loads, what is found, what can be reached and read."""

from pathlib import Path
from typing import Any

import pytest

from theorylab.experiments.tree import EXPERIMENTS
from theorylab.report.atlas import collect, write_site
from theorylab.sources import DOCUMENTS

NAME = "dynamics/catapult"
SEEN = ("index.html", "sources/zhu.html", f"experiments/{NAME}.html")
ENOUGH = 4.5  # of contrast for text, as WCAG AA asks

# The least contrast of any text, over the nearest background that is not transparent.
CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const element of document.body.querySelectorAll("*:not(svg *):not(math *)")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, element.outerHTML.slice(0, 120)];
  }
  return least;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The atlas of the project's own records."""
    folder = tmp_path_factory.mktemp("site") / "atlas"
    write_site(collect(EXPERIMENTS, [], print), folder)
    return folder


@pytest.fixture
def page(browser: Any, site: Path) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    yield page
    context.close()


def test_pages_load_without_complaint_and_ask_nobody(browser, site):
    """Console errors, and every address that is asked for, on pages of every kind."""
    names = ["index.html", *(f"sources/{key}.html" for key in DOCUMENTS)]
    names += [f"experiments/{name}.html" for name in EXPERIMENTS.names()[::20]]
    context = browser.new_context()
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: told.append(request.url))
    for name in names:
        page.goto((site / name).as_uri())
        assert page.title().endswith("theorylab atlas")
    context.close()
    assert not [line for line in told if not line.startswith((site.as_uri(), "data:"))]


def test_the_search_finds_titles_and_claims_as_they_are_typed(page):
    """Oracle: the titles that the tree has, asked for by all their words in another order."""
    title = EXPERIMENTS.entry(NAME).title
    page.fill("#words", " ".join(reversed(title.split())).upper())
    assert page.inner_text("#number") == "1 found"
    page.click("#found a")
    assert page.inner_text("h1") == title
    page.go_back()
    page.fill("#words", "no-such-word-anywhere")
    assert page.inner_text("#number") == "0 found"


def test_a_claim_that_was_found_is_shown_on_its_page(page):
    statement = EXPERIMENTS.entry(NAME).claims[1].statement
    page.fill("#words", statement)
    page.click("#found a")
    assert statement in page.inner_text("tr:target")


def test_the_keyboard_alone_searches_and_follows(page):
    """Tab, letters and Enter; the first stop leads past the navigation."""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "words":
            break
    page.keyboard.type("catapult")
    page.keyboard.press("Tab")
    goal = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert goal in page.inner_text("body")


@pytest.mark.parametrize("name", SEEN)
def test_without_scripts_everything_is_there_but_the_search(browser, site, name):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / name).as_uri())
    title = EXPERIMENTS.entry(NAME).title
    assert name != "index.html" or not page.is_visible("#words")
    assert name == "sources/zhu.html" or title in page.inner_text("body")
    context.close()


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser, site, name, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto((site / name).as_uri())
    least, where = page.evaluate(CONTRAST)
    context.close()
    assert least >= ENOUGH, where


@pytest.mark.parametrize("name", SEEN)
def test_a_narrow_screen_needs_no_scrolling_sideways(browser, site, name):
    context = browser.new_context(viewport={"width": 360, "height": 700})
    page = context.new_page()
    page.goto((site / name).as_uri())
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()
    assert wide <= 0
