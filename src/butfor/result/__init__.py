"""What users hold: verdicts, populations, the run and its record, and how far to believe them.

Whoever holds facts says them: `sentence` and its like stand with the run, the verdict and the
worlds. It knows figures, and never trains. Begin with `verdict.py`, then `population.py`, `run.py`.
"""
