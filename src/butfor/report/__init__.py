"""The report: one summary of a verdict (`summary`) or a population (`overview`), its charts (`charts`, `drawing`), the
list of people (`people`), pages and their files (`page`, `files`), what the public may see (`public`).
"""
