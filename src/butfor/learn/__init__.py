"""Learners beyond our network (any scikit-learn classifier), the engine for all of them, and which one trains."""
