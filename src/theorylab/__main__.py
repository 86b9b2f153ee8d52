"""`python -m theorylab` is the command `theorylab`."""

import sys

from theorylab.cli import main

if __name__ == "__main__":
    sys.exit(main())
