"""The command line: list · show · run · examine · report · tour · forget · completion · fetch."""

from .dispatch import main as main
