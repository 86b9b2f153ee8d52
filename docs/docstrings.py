r"""Docstrings in Google's style as Markdown for MyST: prose, arguments, examples.

    docstring ─► sections ─► paragraphs, `:param name: …` fields, fenced examples

Formulas that stand indented, or in columns, stay as they are written.

Example:
    >>> print(as_markdown("Add 1.\n\nArgs:\n    x: A *number*,\n        or two.\n\nSource: zhu."))
    Add 1.
    <BLANKLINE>
    :param x: A \*number\*, or two.
    <BLANKLINE>
    Source: zhu.
"""

import html
import inspect
import re
import textwrap

SECTION = re.compile(
    r"^(Args|Attributes|Returns|Yields|Raises|Example|Source):[ ]?(.*)$", flags=re.MULTILINE
)


def as_markdown(docstring: str, comments: dict[str, str] | None = None) -> str:
    """Write a docstring as Markdown.

    Args:
        docstring: As it stands in the code.
        comments: What is known of arguments that the docstring does not describe, by name.
    """
    pieces = SECTION.split(inspect.cleandoc(docstring))
    parts = [prose(pieces[0])]
    described = "Args" in pieces[1::3]
    for title, line, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        inside, *after = re.split(r"\n\n(?=\S)", body.strip("\n"), maxsplit=1)
        parts.append(_section(title, line, textwrap.dedent(inside)))
        parts += map(prose, after)
    if comments and not described:
        parts.insert(1, _fields(comments))
    return "\n\n".join(part for part in parts if part.strip())


def prose(text: str) -> str:
    r"""Write paragraphs; what is indented or stands in columns is kept as it is.

    Example:
        >>> print(prose("Of `x_1`\nand *y*:\n\n    x < y"))
        Of `x_1` and \*y\*:
        <BLANKLINE>
        ```text
        x < y
        ```
    """
    return "\n\n".join(map(_block, re.split(r"\n[ \t]*\n", text.strip("\n")))).strip()


def markdown(text: str) -> str:
    """Write a line in which no letter means anything to Markdown, except `code`."""
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(piece if i % 2 else _plain(piece) for i, piece in enumerate(pieces))


def cell(text: str) -> str:
    """Write a line inside a table."""
    return markdown(text).replace("|", "\\|")


def fenced(text: str, language: str = "text") -> str:
    """Write a block of code, whatever fences it holds itself."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _section(title: str, line: str, body: str) -> str:
    if title == "Example":
        return fenced(body, "pycon")
    if title in ("Args", "Attributes"):
        return _fields(_entries(body))
    if title == "Raises":
        errors = {error: markdown(text) for error, text in _entries(body).items()}
        return "\n".join(f"- raises `{error}`: {text}" for error, text in errors.items())
    text = " ".join([line, *body.split()]).strip()
    return f"Source: {markdown(text)}" if title == "Source" else f":returns: {markdown(text)}"


def _entries(body: str) -> dict[str, str]:
    """What is described, by name; a description goes on in lines that are indented."""
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", body):
        name, _, text = entry.partition(":")
        entries[name.strip()] = text
    return entries


def _fields(entries: dict[str, str]) -> str:
    return "\n".join(f":param {name}: {markdown(text)}" for name, text in entries.items())


def _block(block: str) -> str:
    lines = block.splitlines()
    if not block.strip():
        return ""
    indented = all(line.startswith("    ") for line in lines)
    columns = any(re.search(r"\S {3,}\S", line) for line in lines)
    if indented or columns or all("─►" in line for line in lines):
        return fenced(textwrap.dedent(block))
    if re.match(r"[-*] ", lines[0]):
        return "\n".join(re.sub(r"^( *)(?:[-*] )?(.*)$", _item, line) for line in lines)
    text = markdown(block)
    return re.sub(r"^(\d+)([.)])|^([-+>=:])", r"\1\\\2\3", text)  # no list, quote or field


def _item(match: re.Match[str]) -> str:
    line = match[0]
    bullet = "- " if re.match(r" *[-*] ", line) else ""
    return f"{match[1]}{bullet}{markdown(match[2])}"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]#!$])", r"\\\1", html.escape(text, quote=False))
