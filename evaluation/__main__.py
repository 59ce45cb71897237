"""`python -m evaluation`."""

from butfor.support.stopping import end_on_signals

end_on_signals()  # before anything heavy is loaded

from benchmarks.rows import run  # noqa: E402
from evaluation.command import main  # noqa: E402

run(main)
