"""The rows: reading files, the embedded sets, checking, groups, labels, encoding and decisions.

It knows no model. Begin with `table.py` (what everything else gets), `reading.py` (a file becomes
one) and `groups.py` (the protected attribute); `decisions.py` turns answers into decisions.
"""
