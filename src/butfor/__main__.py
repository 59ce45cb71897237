"""Where the command begins, as `butfor` or `python -m butfor`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

from butfor.support.stopping import end_on_signals


def run() -> NoReturn:
    """The command. It listens to signals before anything heavy is loaded."""
    end_on_signals()
    gc.set_threshold(
        50_000, 20, 100
    )  # what is imported stays: looking through it again and again takes a second
    from butfor.cli import main

    code = main()
    gc.freeze()  # nor is it looked through at the end
    sys.exit(code)


if __name__ == "__main__":
    run()
