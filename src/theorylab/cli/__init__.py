"""The command line: list · show · run · report · tour · forget · completion · fetch."""

from .dispatch import main as main
