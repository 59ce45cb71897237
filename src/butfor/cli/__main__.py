"""`python -m butfor.cli`."""

import sys

from butfor.cli import main

if __name__ == "__main__":
    sys.exit(main())
