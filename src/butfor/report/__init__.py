"""The report: what it says of one person (`summary`), of many (`overview`), of groups (`groups`), its `charts`, pages
and their files (`page`), what the public may see (`public`).
"""
