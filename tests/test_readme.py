"""README is short, its example is run as it stands, and the answer that it shows is given."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_shows_a_page_early():
    lines = README.splitlines()
    assert len(lines) <= 100
    assert any("docs/pictures/report.png" in line for line in lines[:18])


def test_the_example_in_python_prints_the_find_that_is_shown(capsys):
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    names: dict = {}
    exec(code, names)
    assert names["verdict"].status == "found"
    assert names["audit"].learner_.name == "LogisticRegression"
    assert capsys.readouterr().out.split() == shown.split()
