"""The page: templates of verdicts, groups and runs.

It knows results and changes none. Begin with `page.py`; `people.py` and `groups.py` say what a page
shows about them, `charts.py` draws.
"""
