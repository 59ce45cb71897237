"""Ctrl-C at the beginning of each phase of an audit: what is kept and what is said.

The table of what is kept is approved: `pytest tests/run/test_stops.py -n 0 --renew` writes it anew.
"""

import json
import os
import signal
from pathlib import Path

from sklearn.linear_model import LogisticRegression

import butfor
from butfor.support import stopping
from butfor.support.progress import Progress
from recorded import FEW_DRAWS, wronged

APPROVED = Path(__file__).with_name("stops.json")
OF_LOGISTIC = (
    "the other groups' standard",
    "tables drawn by one standard",
    "trial",
    "ranking",
    "search",
    "confirmation",
    "side effects",
    "one standard for all",
)
OF_NETWORKS = ("trial", "ranking", "search", "confirmation", "fresh seeds", "side effects")


class PressesAt(Progress):
    """Presses Ctrl-C when a phase begins for the first time, and remembers what a user is told."""

    def __init__(self, phase):
        self.phase_to_stop = phase
        self.lines = []

    def phase(self, name, total=None, unit=""):
        if name == self.phase_to_stop:
            self.phase_to_stop = None
            os.kill(os.getpid(), signal.SIGINT)

    def note(self, line):
        self.lines.append(line)


def kept(population, progress):
    """What an audit that was stopped has."""
    run = population.run
    return {
        "interrupted": population.interrupted,
        "found": len(population.found),
        "complete": sum(verdict.complete for verdict in population),
        "proven": sum(verdict.at_least is not None for verdict in population),
        "fresh seeds": sum(verdict.fresh is not None for verdict in population),
        "without flips": sum(verdict.without_flips is not None for verdict in population),
        "side effects": sum(verdict.collateral is not None for verdict in population),
        "worlds": [len(group.worlds) for group in run.one_standard],
        "questions": {
            name: outcome["status"]
            for name, outcome in json.loads(population.to_json())["run"]["questions"].items()
        },
        "labels": len(population.labels),
        "retrainings": run.retrainings,
        "confirmations": run.confirmations,
        "said": [line for line in progress.lines if "Stopped" in line or "time" in line],
    }


def of_logistic(phase):
    X, y, _ = wronged(500, 3)
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1)
    how = {"sensitive_features": "group", "adverse": "no", "draws": FEW_DRAWS}
    audit.fit(X, y, progress=False, **how)
    progress = PressesAt(phase)
    return kept(audit.explain_all(X[:60], y[:60], cases=range(40), progress=progress), progress)


def of_networks(phase):
    data = butfor.load_dataset("salary")
    setup = data.setup
    audit = butfor.LabelAudit(
        butfor.MLP(hidden=setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size),
        encoder=butfor.TableEncoder("embed", setup.numeric),
        budget=3,
        members=4,
        strategy="solid",
        fresh_seeds=31,
        phi="everyone",
        n_jobs=1,
    )
    how = {"sensitive_features": data.sensitive, "validation": (data.X_val, data.y_val)}
    audit.fit(data.X_train, data.y_train, progress=False, **how)
    progress = PressesAt(phase)
    people = audit.explain_all(data.X_test, data.y_test, cases=range(8), progress=progress)
    return kept(people, progress)


def test_ctrl_c_at_each_phase_keeps_what_is_done(monkeypatch, request):
    # Confirmations after Ctrl-C get half a second: here as long as they take.
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 600.0)
    table = {}
    for name, audited, phases in (
        ("logistic", of_logistic, OF_LOGISTIC),
        ("networks", of_networks, OF_NETWORKS),
    ):
        for phase in (None, *phases):
            table[f"{name}: {phase or 'never'}"] = audited(phase)
    if request.config.getoption("renew"):
        text = json.dumps(table, indent=1, ensure_ascii=False)
        APPROVED.write_text(text + "\n", encoding="utf-8")
    approved = json.loads(APPROVED.read_text(encoding="utf-8"))
    assert set(table) == set(approved)
    for case, row in table.items():
        assert row == approved[case], case
        assert row["interrupted"] == (not case.endswith("never"))
