"""How outcomes are shown: live in the terminal, as a table of claims, as one page of HTML.

    outcomes ─► print_claims ─► terminal
             └► write_page ───► one HTML file that needs nothing else

`LiveProgress` shows how far the runs are, `SweepProgress` how far a sweep is.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

if TYPE_CHECKING:
    from .page import write_page as write_page
    from .progress import LiveProgress as LiveProgress
    from .sweeping import SweepProgress as SweepProgress
    from .terminal import print_claims as print_claims

_LATER = {
    "write_page": ".page",
    "LiveProgress": ".progress",
    "SweepProgress": ".sweeping",
    "print_claims": ".terminal",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
