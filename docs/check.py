"""Hold a built site to its promise: no page asks a network for anything.

    python docs/check.py site

Links that a reader may click are fine. What a browser would load by itself must be a file of the
site: scripts, styles, fonts, icons, images, frames, and whatever a style sheet names.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

REMOTE = re.compile(r"^\s*(?:https?:)?//", flags=re.IGNORECASE)
STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
LOADED = {"src", "srcset", "poster", "data", "background"}  # attributes that a browser follows


class Requests(HTMLParser):
    """Collects what a browser would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at every attribute that is followed without a click."""
        self.inside_style = tag == "style"
        followed = LOADED | ({"href"} if tag in {"link", "image", "use", "base"} else set())
        followed |= {"xlink:href"} if tag != "a" else set()
        for name, value in attrs:
            if name in followed and value and REMOTE.match(value):
                self.found.append(value)
            elif name == "style" and value:
                self.found += STYLE.findall(value)

    def handle_endtag(self, tag: str) -> None:
        """Leave a style."""
        self.inside_style = False

    def handle_data(self, data: str) -> None:
        """Look at a page's own styles."""
        if self.inside_style:
            self.found += STYLE.findall(data)


def requests(file: Path) -> list[str]:
    """The addresses of other hosts that a page, a figure or a style sheet loads."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".css":
        return STYLE.findall(text)
    reader = Requests()
    reader.feed(text)
    return reader.found


def complaints(site: Path) -> Iterator[str]:
    """What is wrong with a site, a line for each."""
    files = [path for path in sorted(site.rglob("*")) if path.suffix in {".html", ".css", ".svg"}]
    if not any(path.suffix == ".html" for path in files):
        yield f"{site} must hold pages, got none."
    for file in files:
        for address in requests(file):
            yield f"{file.relative_to(site)} loads {address}"


def main(arguments: list[str]) -> int:
    """Print every complaint; 0 if there is none."""
    lines = list(complaints(Path(arguments[0])))
    print("\n".join(lines) or "no page loads anything from a network")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
