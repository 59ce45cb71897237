"""How an audit asks: which settings cannot be, and what its record says of them so that it can be run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor import __version__
from butfor.errors import SettingError
from butfor.learn.engines import check_engine
from butfor.learn.ensemble import FRESH_FROM, fresh_seeds
from butfor.provenance import given_how, versions
from butfor.rank import Ranking, as_ranking
from butfor.rank.ranking import parameters
from butfor.rules import Rule, as_phi, as_psi
from butfor.search import Strategy, as_strategy, budget_in_labels

if TYPE_CHECKING:
    from butfor.audit import LabelAudit

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Settings:
    """What the user chose, as the objects it names."""

    rank: Ranking
    strategy: Strategy
    phi: Rule
    psi: Rule
    budget: int
    fresh_seeds: int
    shuffles: int
    random_state: int


def check_settings(audit: LabelAudit) -> None:
    """Refuse settings that cannot be, before anything is trained."""
    if audit.strategy is not None:
        as_strategy(audit.strategy)
    if audit.rank is not None:
        as_ranking(audit.rank)
    as_phi(audit.phi)
    as_psi(audit.psi)
    budget_in_labels(audit.budget, 2**62)
    check_engine(audit.engine, audit.n_jobs)
    if audit.members is not None:
        _check_whole("members", audit.members, 1, FRESH_FROM)
    _check_whole("fresh_seeds", audit.fresh_seeds, 0, FRESH_FROM)
    _check_whole("shuffles", audit.shuffles, 0, FRESH_FROM)
    _check_whole("random_state", audit.random_state, 0, LARGEST_SEED)


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value <= most:
        raise SettingError(f"{name}={value!r} must be a whole number from {least} to {most}.")


def record_of(audit: LabelAudit) -> dict[str, Any]:
    """What is needed to run this audit again; `not_rebuildable` names what a record cannot carry."""
    table = audit.table_
    figures = {"sha256": audit.data_hash_, "training_rows": table.n, "set_aside": table.set_aside}
    figures |= {"validated": table.validation is not None, "weighted": table.weight is not None}
    return {
        "butfor": __version__,
        "versions": versions(),
        "data": audit.origin_ | figures,
        "sensitive": audit.sensitive_.name,
        "sensitive_columns": list(audit.sensitive_.columns),
        "sensitive_bands": audit.sensitive_.cuts,
        "blind": audit.sensitive_.blind,
        "label_names": list(audit.label_names_),
        "adverse": _adverse(audit),
        "learner": audit.learner_.record(),
        "learner_name": audit.learner_.name,
        "seeded": audit.seeded_,
        "budget": audit.budget_,
        "rank": audit.rank_.name,
        "rank_parameters": parameters(audit.rank_),
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


def _adverse(audit: LabelAudit) -> str | list[str] | None:
    """The label that people would rather not have, or several."""
    if audit.adverse_ is None:
        return None
    sides = audit.table_.sides(np.arange(len(audit.label_names_)))
    names = [name for name, side in zip(audit.label_names_, sides, strict=True) if side == bool(audit.adverse_)]
    return names if len(names) > 1 else names[0]


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
