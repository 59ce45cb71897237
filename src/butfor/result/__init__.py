"""What an audit says: verdicts, populations, their records, and the controls that say how far to believe them."""
