"""The report: one person (`summary`), many (`overview`, and their list in `people`), `groups`, `charts`, pages and
their files (`page`), the version for the public (`public`)."""
