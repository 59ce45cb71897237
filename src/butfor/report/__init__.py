"""The report: what a page says about people (`people`) and `groups`, `charts`, pages and their
files (`page`), and the version for the public (`public`)."""
