"""The README's example is run as it stands, and gives the answer the README shows."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_gives_the_shown_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    names: dict = {}
    exec(code, names)
    shown = re.search(r"Flipping .*? training labels \(.*?\) turns '.*?' into '.*?'", text)[0]
    assert names["verdict"].sentence.startswith(shown)
    assert names["verdict"].control.sentence in " ".join(text.split())
    assert (tmp_path / "audit.html").exists()
