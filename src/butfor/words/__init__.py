"""Figures and names in sentences, the same everywhere.

Functions of numbers and of names; the room knows nothing else of butfor but its errors and files.
Begin with `figures.py` (numbers in words) and `names.py` (the reader's own words).
"""
