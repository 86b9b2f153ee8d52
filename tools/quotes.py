"""Look up every quote of a claim in the text of its source.

    python tools/quotes.py FOLDER      FOLDER has the texts: zhu.txt, karp.txt, ...

Prints the quotes that do not stand in the text, and the printed statements without one; ends with
1 if there are any. Letters and digits are compared: spaces, hyphens at the end of a line,
punctuation and LaTeX commands do not count. In a quote, … or [...] stands for words left out.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from theorylab.experiments.entry import Statement
from theorylab.experiments.tree import EXPERIMENTS

SHORTEST = 12  # letters of a quote; a shorter one could stand anywhere


def bare(text: str) -> str:
    r"""Letters and digits only, in lower case, without LaTeX commands.

    Example:
        >>> bare("The over-\nparametrised $\\alpha$-net, 2nd.")
        'theoverparametrisednet2nd'
    """
    text = re.sub(r"-\s*\n\s*", "", unicodedata.normalize("NFKD", text))
    text = re.sub(r"\\[A-Za-z]+", " ", text)
    return "".join(letter for letter in text.lower() if letter.isalnum())


def problem(claim: Statement, texts: Mapping[str, str]) -> str:
    """Say what is wrong with the quote of a claim; nothing, if nothing is.

    Example:
        >>> from theorylab.experiments.entry import Place
        >>> texts = {"zhu": bare("We show that the loss spikes.")}
        >>> where = Place("zhu", "catapult-gd", "§4")
        >>> problem(Statement("It spikes.", where, quote="the loss spikes"), texts)
        ''
        >>> problem(Statement("It spikes.", where, kind="printed"), texts)
        'printed, without a quote'
        >>> problem(Statement("It falls.", where, quote="the loss falls at once"), texts)
        "not in zhu: 'the loss falls at once'"
    """
    if not claim.quote:
        return "printed, without a quote" if claim.kind == "printed" else ""
    if claim.source.key not in texts:
        return f"the text of {claim.source.key} is not there"
    parts = [bare(part) for part in re.split(r"\[\.\.\.\]|…", claim.quote)]
    short = sum(map(len, parts)) < SHORTEST
    missing = any(part not in texts[claim.source.key] for part in parts)
    return f"not in {claim.source.key}: {claim.quote!r}" if missing or short else ""


def problems(texts: Mapping[str, str]) -> Iterable[str]:
    """A line for every quote of the tree that is not in the texts."""
    for entry in EXPERIMENTS.entries():
        for claim in entry.claims:
            if said := problem(claim, texts):
                yield f"{entry.name}: {claim.statement} ({claim.source}): {said}"


def main(folder: Path) -> int:
    """Print what is wrong; how many lines there are decides about success."""
    texts = {path.stem: bare(path.read_text(errors="replace")) for path in folder.glob("*.txt")}
    if not texts:
        print(f"{folder} must have texts (zhu.txt, ...), got none.", file=sys.stderr)
        return 2
    lines = list(problems(texts))
    print(*lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/quotes.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
