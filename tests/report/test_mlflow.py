"""The lines of docs/review.md on MLflow, run as they stand against a stand-in that notes what it is asked to log."""

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from butfor.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "review.md"


def test_the_documented_lines_log_figures_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--model", "logistic", "--cases", "0:10", "--fresh-seeds", "0", "--out", "report", "--quiet"]
    assert main(["audit", "german", *options]) == 0
    logged = {}
    stand_in = SimpleNamespace(
        start_run=lambda run_name: nullcontext(), set_tag=logged.__setitem__, log_params=logged.update,
        log_metrics=logged.update, log_text=lambda text, name: logged.update({name: text}),
        log_artifacts=lambda folder, place: logged.update({place: sorted(p.name for p in Path(folder).iterdir())}),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    section = PAGE.read_text(encoding="utf-8").partition("## MLflow\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    assert logged["learner_name"] == "LogisticRegression"
    assert logged["eligible"] >= logged["found"] >= logged["solid"]
    assert 0.5 < logged["accuracy"] < 1
    assert logged["accuracy_of_the_commoner_label"] < logged["accuracy"]
    assert logged["rates.csv"].splitlines()[1].startswith("female,")
    assert {"audit.json", "audit.toml", "report.html"} <= set(logged["report"])
