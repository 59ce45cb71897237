"""What every room uses: errors, stopping, progress, files, the terminal, threads.

It knows no table and no model. Begin with `errors.py` and `stopping.py`.
"""
