"""The README's examples are run as they stand, but about fewer people, and give the answers the README shows."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def run(example: int) -> tuple[str, dict]:
    text = README.read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[example]
    names: dict = {}
    exec(code.replace("cases=range(20)", "cases=range(3)"), names)
    return text, names


def test_a_pipeline_of_ones_own(capsys):
    _, names = run(0)
    assert names["audit"].learner_.name == "GradientBoostingClassifier (pipeline)"
    assert "person of row" in capsys.readouterr().out


def test_the_network_example_gives_the_shown_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = run(1)
    shown = re.search(r"Flipping .*? training labels \(.*?\) turns '.*?' into '.*?'", text)[0]
    assert names["verdict"].sentence.startswith(shown)
    assert names["verdict"].fresh.sentence in " ".join(text.split())
    assert names["verdict"].solidity == "solid"
    assert (tmp_path / "audit.html").exists()
