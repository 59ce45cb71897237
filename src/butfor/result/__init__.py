"""What an audit says: verdicts, populations, their tables and records, and how far to believe them.

Whoever holds facts says them: `sentence` and its like stand with the run, the verdict, the
population and the worlds. `butfor.words` has numbers in words; `words` here, what pages say about
each status, and about strategies and rankings.
"""
