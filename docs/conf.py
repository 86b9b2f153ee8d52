"""How Sphinx builds the documentation: Markdown pages, the gallery and the API reference.

    python docs/generate.py && python -m sphinx -W --keep-going docs site

Every page works without a network: formulas become MathML here, and fonts, icons, styles and the
search index are files beside the pages.
"""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "theorylab"
author = "the authors of theorylab"
release = version = installed("theorylab")

extensions = ["myst_parser", "mathml", "names"]
myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
nitpicky = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries = False  # a room's page would list every name twice
highlight_language = "none"  # indented blocks are formulas and commands

exclude_patterns = ["_inventories", "_ext", "_static", "_tutorials"]

html_theme = "pydata_sphinx_theme"
html_title = "theorylab"
html_static_path = ["_static"]
html_css_files = ["theorylab.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "guide": [], "search": []}
html_theme_options = {
    "navigation_depth": 3,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "article_footer_items": [],
}
