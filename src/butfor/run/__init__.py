"""From people to verdicts: `runner` searches, `verdicts` assembles the results."""
