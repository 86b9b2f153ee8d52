"""Neural Tangents' names, arguments and conventions, computed by theorylab.

    from theorylab.compat import stax
    import theorylab.compat as nt

A notebook written for Neural Tangents runs with these two imports in the place of its own; the page
on coming from Neural Tangents says what differs.
"""

from . import stax as stax
from .kernel import Kernel as Kernel
