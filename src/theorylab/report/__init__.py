"""How outcomes are shown: live in the terminal, as a table of claims, as one page of HTML.

    outcomes ─► print_claims ─► terminal
             └► write_page ───► one HTML file that needs nothing else

`LiveProgress` shows how far the runs are.
"""

from .page import write_page as write_page
from .progress import LiveProgress as LiveProgress
from .terminal import print_claims as print_claims
