"""The report: one summary of a verdict (`summary`) or a population (`overview`), drawings (`drawing`, `charts`,
`parallel`), the list of people (`people`), pages and their files (`page`, `files`), what may be handed over
(`privacy`).
"""
