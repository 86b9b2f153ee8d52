"""Names that become links: of types in signatures, and of `code` in the text.

Sphinx finds the names of this reference. For other packages `_inventories/names.toml` has the pages
of the names that are used here, or nothing where a name stays text: no network is asked. A name
that is nowhere is a warning.
"""

import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

LISTED: dict[str, str] = tomllib.loads(
    (Path(__file__).parents[1] / "_inventories" / "names.toml").read_text(encoding="utf-8")
)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Find the page of another package's name; None: it is not listed."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if target.startswith("theorylab.") and node["reftype"] == "class":
        return content  # the type of an argument that is none of a reader's business
    if target not in LISTED:
        return None
    page = LISTED[target]
    if not page:
        return content
    return nodes.reference("", "", content, internal=False, refuri=page, reftitle=target)


class LinkedCode(SphinxPostTransform):
    """`kernels.ntk` in a text, and `ntk` on the pages of its own room, lead to the reference."""

    default_priority = 400

    def run(self, **kwargs: Any) -> None:
        """Link what names exactly one thing."""
        page = self.env.docname
        room = page.split("/")[1] if page.startswith(("concepts/", "reference/")) else ""
        domain = self.env.domains["py"]
        assert isinstance(domain, PythonDomain)
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, nodes.reference | pending_xref):
                continue
            text = node.astext()
            names = (f"theorylab.{text}", f"theorylab.{room}.{text}")
            found = next((name for name in names if name in domain.objects), None)
            if found:
                entry, code = domain.objects[found], node.deepcopy()
                link = (self.app.builder, page, entry.docname, entry.node_id, code, found)
                node.replace_self(make_refnode(*link))


def setup(app: Sphinx) -> dict[str, Any]:
    """Take part in the resolution of references."""
    app.connect("missing-reference", resolve)
    app.add_post_transform(LinkedCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
