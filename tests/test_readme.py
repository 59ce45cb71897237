"""README is short, its example gives the answer shown; CONTRIBUTING's parts work in an audit."""

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


def test_the_parts_that_contributing_shows_work_in_an_audit(capsys):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names: dict = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    assert capsys.readouterr().out.count(" training labels (") == 3
    files = re.findall(r"`(\w+)\.py`", text[text.index("## The method") : text.index("## Where things live")])
    assert all((ROOT / "src" / "butfor" / f"{name}.py").exists() for name in files)
