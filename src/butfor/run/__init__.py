"""From the people asked about to their verdicts: `runner` finds out, `conclude` puts it together."""
