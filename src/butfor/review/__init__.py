"""After an audit: tasks for a reviewer, their answers, replay of a record, the gate of a build.

It knows results and asks the audit again. Begin with `tasks.py`, then `answers.py` and `close.py`
(what corrections change); `replay.py` and `gate.py` stand alone.
"""
