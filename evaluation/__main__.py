"""`python -m evaluation`."""

from benchmarks.rows import run
from evaluation.command import main

run(main)
