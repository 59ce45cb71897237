"""Learners of the models that are audited."""
