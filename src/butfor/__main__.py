"""Where the command begins, as `butfor` or `python -m butfor`: Ctrl-C while it is still loading ends it like any later
one."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    try:
        from butfor.cli import run as command
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    run()
