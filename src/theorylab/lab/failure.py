"""The two ways in which the lab says no: before any work, and in the middle of it."""


class Refused(Exception):
    """Nothing was run: what was asked cannot be done. Says what must hold and what came."""


class RunFailed(Exception):
    """A run broke off. Says which, and why."""
