"""From the people asked about to their verdicts: `runner` finds out, `verdicts` puts it together."""
