"""`python -m benchmarks`: what there is to measure."""

from __future__ import annotations

import ast
from pathlib import Path


def main() -> None:
    """One line per measurement, the first of its text; nothing is imported."""
    print("Start one with 'python -m benchmarks.NAME'; '--help' shows its options.\n")
    for path in sorted(Path(__file__).parent.glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        starts = any(
            isinstance(part, ast.FunctionDef) and part.name == "main" for part in module.body
        )
        if starts and path != Path(__file__):
            print(f"{path.stem:14} {(ast.get_docstring(module) or '').splitlines()[0]}")


if __name__ == "__main__":
    main()
