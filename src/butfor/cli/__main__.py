"""`python -m butfor.cli`."""

import sys

from butfor.cli import run

if __name__ == "__main__":
    sys.exit(run())
