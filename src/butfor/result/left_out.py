"""Why φ leaves a person out: the decision is not the audited one, a switch changes it, or the rule says so."""

from __future__ import annotations

import re

from butfor.data.labels import EQUALS
from butfor.result.run import Run

PREDICTED = re.compile(r"\bpredicted\(([^)]*)\)")


def left_out_by(run: Run, decided: str, switch_changes: bool) -> str:
    """ "decision", "switch" or "rule", for a person about whom the model decides `decided`."""
    wanted = {label.strip("'\" ") for label in PREDICTED.findall(run.phi)}
    other = wanted and "~" not in run.phi and not wanted & {decided, decided.rpartition(EQUALS)[2]}
    if decided == run.towards or other:
        return "decision"
    return "switch" if switch_changes and "stable_under_switch" in run.phi and "~" not in run.phi else "rule"


def left_out_sentence(run: Run, decided: str, why: str) -> str:
    """The same as the end of a sentence."""
    if why == "decision":
        return f"the decision is '{decided}'{' already' * (decided == run.towards)}."
    if why == "switch":
        return f"the decision changes when {run.sensitive} alone is switched, so the model uses it directly."
    return f"the rule φ ({run.phi}) leaves this person out."
