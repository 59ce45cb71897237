"""Measurements anyone can repeat: accuracy, engine speed, search effectiveness. Not tests."""
