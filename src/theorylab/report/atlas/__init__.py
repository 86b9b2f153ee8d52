"""The atlas: a static site of all that is claimed and found, readable offline for ever.

    tree + records + outcomes of the store ─► exhibits ─► pages ─► one folder

    index.html                     rooms, documents, every experiment, search
    sources/<key>.html             a document, chapter by chapter, system by system, and its errata
    experiments/<name>.html        an experiment: claims, figure, settings, how to run it again

A page needs nothing but itself (large figures stand beside it); only the search has a script.
"""

from .collected import Exhibit as Exhibit
from .collected import collect as collect
from .site import write_site as write_site
