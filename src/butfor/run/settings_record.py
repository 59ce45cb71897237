"""What an audit's record says of how it was run, so that it can be run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from butfor import __version__
from butfor.learn.ensemble import fresh_seeds
from butfor.provenance import given_how, versions
from butfor.rank.ranking import parameters

if TYPE_CHECKING:
    from butfor.audit import LabelAudit


def record_of(audit: LabelAudit) -> dict[str, Any]:
    """What is needed to run this audit again; `not_rebuildable` names what a record cannot carry."""
    data = {"sha256": audit.data_hash_, "training_rows": audit.table_.n, "set_aside": audit.table_.set_aside}
    return {
        "butfor": __version__,
        "versions": versions(),
        "data": audit.origin_
        | data
        | {"validated": audit.table_.validation is not None, "weighted": audit.table_.weight is not None},
        "sensitive": audit.sensitive_.name,
        "sensitive_columns": list(audit.sensitive_.columns),
        "sensitive_bands": audit.sensitive_.cuts,
        "blind": audit.sensitive_.blind,
        "label_names": list(audit.label_names_),
        "learner": audit.learner_.record(),
        "learner_name": audit.learner_.name,
        "seeded": audit.seeded_,
        "budget": audit.budget_,
        "rank": audit.rank_.name,
        "rank_parameters": audit.rank_.parameters(),
        "strategy": audit.strategy_.name,
        "strategy_parameters": parameters(audit.strategy_),
        "phi": audit.phi_.text,
        "psi": audit.psi_.text,
        "members": audit.members_,
        "fresh_seeds": audit.fresh_seeds,
        "seed_ranges": _seed_ranges(audit),
        "n_shuffles": audit.shuffles,
        "random_state": audit.random_state,
        "not_rebuildable": _not_rebuildable(audit),
    }


def _seed_ranges(audit: LabelAudit) -> dict[str, list[int]] | None:
    """First and last seed of the members and of the fresh ones."""
    if not audit.seeded_:
        return None
    own = audit.learner_.own_seed
    fresh = fresh_seeds(audit.learner_, audit.fresh_seeds)
    return {"members": [own, own + audit.members_ - 1], "fresh": [fresh[0], fresh[-1]] if fresh else []}


def _not_rebuildable(audit: LabelAudit) -> list[str]:
    lost = audit.learner_.gaps()
    if audit.origin_["table"] is None:
        lost.append(f"data: {given_how(audit.origin_)}")
    if audit.table_.weight is not None:
        lost.append("sample_weight: given in Python")
    for name, rule in (("phi", audit.phi_), ("psi", audit.psi_)):
        if not rule.rebuildable:
            lost.append(f"{name}: {rule.text}, which is a function or a mask")
    own = {"rank": not audit.rank_.rebuildable}
    for name, thing in (("rank", audit.rank_), ("strategy", audit.strategy_)):
        if type(thing).__module__.split(".")[0] != "butfor" or own.get(name):
            lost.append(f"{name}: {thing.name}, which is the user's own code")
    return lost
