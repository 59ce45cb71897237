"""Measurements anyone can repeat: accuracy, engine speed, search effectiveness. Not tests."""

import sys

from butfor.support.stopping import end_on_signals

if sys.argv[0] == "-m":  # python -m benchmarks.…: listen to signals before anything heavy is loaded
    end_on_signals()
