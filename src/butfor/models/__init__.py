"""What is trained: the seam, the kinds of models behind it, and what trains thousands of them.

It knows tables and nothing of searches or groups. Begin with `seam.py` (Learner, Model, Engine);
`making.py` makes them from names, estimators and records, `trainer.py` trains what a search asks.
"""
