"""The command line: list · show · run · examine · report · find · verify · gc · …."""

from .dispatch import main as main
