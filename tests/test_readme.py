"""README is short, its example is run as it stands, and the answer that it shows is given."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_shows_a_page_early():
    lines = README.splitlines()
    assert len(lines) <= 110
    assert any("docs/pictures/report.png" in line for line in lines[:18])


def test_the_example_in_python_prints_the_find_that_is_shown(capsys):
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    names: dict = {}
    exec(code, names)
    assert names["verdict"].status == "found"
    assert names["audit"].learner_.name == "LogisticRegression"
    assert capsys.readouterr().out.split() == shown.split()


def test_the_rows_beside_the_paper_are_those_of_the_published_evaluation():
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    table = {cells[0]: [cell.strip("*") for cell in cells] for cells in rows(page)}
    beside = [cells for cells in rows(README) if cells[0].lower() in table]
    assert len(beside) >= 4
    for name, people, method, chance, distance, truth in beside:
        assert [people, truth, method, chance, distance] == [table[name.lower()][k] for k in (1, 3, 4, 5, 6)]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, line by line; of a data set that stands in several, the first."""
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (.*) \|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        found.setdefault(cells[0], cells)
    return list(found.values())
