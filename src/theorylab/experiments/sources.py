"""The documents whose claims are tested: the one list of them, which reports and docs repeat."""

from collections.abc import Iterable, Mapping

DOCUMENTS = {
    "arora": "S. Arora et al., Theory of Deep Learning, monograph",
    "golikov": (
        "E. Golikov, Deep Neural Networks: Large-Width Behavior and Generalization Bounds,"
        " EPFL 2025"
    ),
    "karp": "S. Karp, Adapting to Structure and Using Structure to Adapt, CMU 2024",
    "shi": "Z. Shi, Understanding Training and Adaptation in Feature Learning, UW–Madison 2024",
    "zhu": (
        "L. Zhu, Toward Understanding the Dynamics of Over-parameterized Neural Networks,"
        " UC San Diego 2024"
    ),
}


def documents(keys: Iterable[str], others: Mapping[str, str] | None = None) -> dict[str, str]:
    """The documents that go by these keys, in the order of the alphabet.

    Args:
        keys: Which documents.
        others: Author and title of documents that are none of the five, as experiments say them in
            `SOURCES`; a document of which nobody says anything is called by its key.

    Example:
        >>> list(documents(["zhu", "arora", "zhu"]))
        ['arora', 'zhu']
    """
    known = {**(others or {}), **DOCUMENTS}
    return {key: known.get(key, key) for key in sorted(set(keys))}
