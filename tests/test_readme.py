"""The README's example is run as it stands, and the answer the README shows is given."""

import re
from pathlib import Path

import butfor

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_shows_a_page_first():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert any("docs/pictures/report.png" in line for line in lines[:12])


def test_the_example_in_python(capsys):
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict = {}
    exec(code, names)
    said = capsys.readouterr().out
    assert names["audit"].learner_.name == "LogisticRegression"
    assert "than comparable people in other groups" in said
    assert "person of row" in said


def test_the_answer_about_one_person():
    data = butfor.load_dataset("german")
    model = butfor.MLP(hidden=(32, 32), max_epochs=100, batch_size=None)
    audit = butfor.LabelAudit(model, encoder=butfor.TableEncoder("embed"), members=16, budget=0.01)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex", validation=(data.X_val, data.y_val))
    verdict = audit.explain(data.X_test.iloc[[148]])
    shown = re.search(r"Flipping .*? training labels \(.*?\) turns '.*?' into '.*?'", README)[0]
    assert verdict.sentence.startswith(shown)
    assert verdict.fresh.sentence in " ".join(README.split())
    assert verdict.solidity == "solid"
