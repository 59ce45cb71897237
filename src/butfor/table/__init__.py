"""The rows: reading files, the embedded sets, checking, groups, labels, encoding and decisions.

It knows no model. Begin with `table.py` (what everything else gets), `reading.py` (a file becomes
one), `roles.py` (what its columns are for) and `groups.py` (the protected attribute).
`decisions.py` turns answers about two labels into decisions, `sides.py` those about more.
"""
