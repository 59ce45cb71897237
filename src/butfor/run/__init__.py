"""From the people asked about to their verdicts: `ask` finds out, `conclude` puts it together."""
