"""What an audit says: verdicts, populations, their tables and records, and how far to believe them."""
