"""Terminal, page and files of one audit say the same."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.result.population import Population

AUDIT = ["audit", "german", "--model", "logistic", "--cases", "0:60", "--budget", "2"]


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """The folder of an audit, and what it printed."""
    folder = tmp_path_factory.mktemp("agreement") / "report"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("butfor.cli.printing.say_wrapped", lambda line, **_: printed.append(line))
        assert main([*AUDIT, "--out", str(folder)]) == 0
    return folder, printed


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", page)).replace("\xa0", " "))


def test_who_was_left_out_and_why_is_counted_alike(audit):
    folder, printed = audit
    people, page = pd.read_csv(folder / "people.csv"), text_of((folder / "report.html").read_text())
    out = people[people["status"] == "not_eligible"]
    assert len(out)
    assert out["switch_changes"].all()
    assert (out["prediction"] == "good credit").any()
    assert f"Audited: {60 - len(out)} of 60 people; for {len(out)} it changes when sex alone is switched." in page
    was = "was" if len(out) == 1 else "were"
    said = f"{len(out)} of 60 people {was} not audited, because switching sex alone changes that decision."
    assert said in page
    assert any(line.endswith(said) for line in printed)
    assert "60 of 200 examined" in page
    assert f"the other {200 - 60 + len(out)} of 200 people hinge: they were not audited" in page


def test_the_page_says_that_intervals_are_each_groups_own_and_p_is_adjusted(audit):
    page = text_of((audit[0] / "report.html").read_text())
    assert page.count("own. The verdict goes by p, which is adjusted for all groups.") == 1


def test_the_scores_of_the_page_are_in_the_file(audit):
    folder, _ = audit
    people, population = pd.read_csv(folder / "people.csv"), Population.from_json(folder / "audit.json")
    towards = 1 if population.run.favourable == population.run.label_names[1] else -1
    for column, logit in (("score", "logit"), ("counterfactual_score", "counterfactual_logit")):
        expected = 1 / (1 + np.exp(-towards * people[logit]))
        np.testing.assert_allclose(people[column], expected, rtol=1e-12)
    assert ((people["score"] >= 0.5) == (people["prediction"] == "good credit")).all()
    assert people["counterfactual_score"].notna().sum() == len(population.found) > 0


def test_page_and_command_review_the_same_labels(audit, tmp_path, capsys):
    folder, printed = audit
    page = text_of((folder / "report.html").read_text())
    assert main(["review", str(folder / "audit.json"), "--out", str(tmp_path / "tasks"), "--anyway"]) == 0
    expected = re.search(r"About \d+ of these \d+ labels are likely to be wrong[^:]*:", capsys.readouterr().out)
    assert expected
    assert expected.group() in page
    first = ", ".join(str(label.row) for label in Population.from_json(folder / "audit.json").labels[:3])
    assert any(line.startswith(f"Next: review labels {first} (rows counted from 0)") for line in printed)
    assert "Rows are counted from 0." in page
    assert page.index("What to do next?") < page.index("Have labels reviewed blind") < page.index("All steps")


def test_a_refused_audit_leaves_no_folder_behind(tmp_path):
    for wrong in (["--threshold", "80"], ["--cases", "900:1000"]):
        assert main([*AUDIT, *wrong, "--out", str(tmp_path / "new" / "report")]) != 0
        assert not list(tmp_path.iterdir())
