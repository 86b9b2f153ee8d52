"""The two ways in which the lab says no: before any work, and in the middle of it."""


class Refused(ValueError):
    """Nothing was run: what was asked cannot be done. Says what must hold and what came."""


class RunFailed(RuntimeError):
    """A run broke off. Says which, and why."""


def one_line(text: object, most: int = 300) -> str:
    r"""What an error says, on one line of bounded length.

    Example:
        >>> one_line(ValueError("two\n  lines"))
        'two lines'
    """
    words = " ".join(str(text).split())
    if not words and isinstance(text, BaseException):
        words = type(text).__name__
    return words if len(words) <= most else words[: most - 1] + "…"
