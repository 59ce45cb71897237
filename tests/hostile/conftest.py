"""Counts what the hostile cases end in; the totals stand at the end of `python -m pytest tests/hostile`."""

from __future__ import annotations

from collections import Counter

import pytest

from hostile import harness

OTHERWISE = "otherwise"
"""What a case without an attempt on the command line is counted as: it checks by itself."""
FAULTS = ("traceback", "silent", "injection", "hang")


@pytest.fixture(autouse=True)
def _noted(request, record_property, monkeypatch):
    """Notes how every attempt of a case ended, for the totals."""
    original, seen = harness.check, []

    def check(ending, **how):
        original(ending, **how)
        seen.append(ending.kind)

    monkeypatch.setattr(harness, "check", check)
    yield
    record_property("hostile", seen[-1] if seen else OTHERWISE)


def pytest_terminal_summary(terminalreporter):
    cases, faults, passed = Counter(), Counter(dict.fromkeys(FAULTS, 0)), set()
    for kind in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(kind, []):
            if "hostile" not in report.nodeid.split("/"):
                continue
            if kind != "passed":
                text = str(report.longrepr)
                faults[next((fault for fault in FAULTS if f"{fault}:" in text), "other")] += 1
            elif report.when == "call":
                passed.add(report.nodeid)
    for report in terminalreporter.stats.get("", []):  # what was noted arrives with the teardown
        for name, value in report.user_properties:
            if name == "hostile" and report.when == "teardown" and report.nodeid in passed:
                cases[value] += 1
    if passed or faults.total():
        found = ", ".join(f"{faults[fault]} {fault}s" for fault in FAULTS)
        terminalreporter.write_line(
            f"Hostile cases: {len(passed)}; {cases[harness.REFUSED]} refused with a sentence, "
            f"{cases[harness.WORKED]} worked, {cases[OTHERWISE]} checked without the command line; {found}."
        )
