"""`python -m butfor.cli`."""

from butfor.cli import run

if __name__ == "__main__":
    run()
