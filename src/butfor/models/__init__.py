"""What is trained: the seam, the kinds of models behind it, and what trains thousands of them.

It knows tables and nothing of searches or groups. Begin with `seam.py` (Learner, Model, Engine).
`kinds.py` says which estimator is of which kind, each in a file beside it; `abilities.py` says what
only some of them can tell. `making.py` makes learners of estimators and of records. `trainer.py`
trains what a search asks.
"""
