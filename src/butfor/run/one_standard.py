"""An audit's own comparison of standards, and the model trained with one standard for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import Floats, Training
from butfor.progress import Watcher
from butfor.result.fresh import FreshSeeds
from butfor.result.one_standard import OneStandard, Turned
from butfor.result.record import plain
from butfor.run.fresh_seeds import decides_otherwise
from butfor.search.trainer import Trainer
from butfor.situation import Situation
from butfor.standard.compare import attributes_of, compare
from butfor.standard.groups import Standards

if TYPE_CHECKING:
    from butfor.audit import LabelAudit

SHUFFLES = 99


def standards_of(
    audit: LabelAudit, shuffles: int = SHUFFLES, seconds: float | None = None, watch: Watcher | None = None
) -> Standards:
    """The training rows of an audit, group by group beside the others' standard. Doubt is the same whichever label is
    the adverse one; where none is named, the first counts as such."""
    adverse, table = audit.adverse_ or 0, audit.table_
    return compare(
        table.X,
        table.zero_one.astype(np.int64) != adverse,
        attributes_of(audit.sensitive_, table.X),
        names=(audit.label_names_[adverse], audit.label_names_[1 - adverse]),
        shuffles=shuffles,
        weight=table.weight,
        n_jobs=audit.n_jobs,
        random_state=audit.random_state,
        seconds=seconds,
        watch=watch,
    )


def one_standard(
    standards: Standards,
    adverse: int,
    everyone: Situation,
    truth: NDArray[np.bool_] | None,
    trainer: Trainer,
    seeds: Sequence[int],
    seeded: bool,
) -> list[OneStandard]:
    """For every group that falls short by more than chance: its missing labels flipped, trained by the definition and
    under fresh seeds. `trainer` asks about everyone."""
    short = [c for c in standards.comparisons if c.attribute == standards.attribute and c.missing and c.differs]
    sets = {c.group: tuple(sorted(map(int, standards.missing_labels(c.group)))) for c in short}
    trainer.watch.phase("one standard for all", len(sets) * (trainer.members + len(seeds)) + len(seeds) * bool(sets))
    trainer.confirm(list(sets.values()))
    base = trainer.ask([Training((), seed) for seed in seeds]) if sets and seeds else None
    done = []
    for group, flips in sets.items():
        after = trainer.confirmed_logits(flips)
        fresh = trainer.ask([Training(flips, seed) for seed in seeds]) if base is not None else None
        done.append(
            OneStandard(
                attribute=standards.attribute,
                group=group,
                flips=flips,
                labels=everyone.table.n,
                people=int((everyone.groups.astype(str) == group).sum()),
                turned=_turned(everyone, after, base, fresh),
                rates=_rates(everyone, after, adverse),
                accuracy=None if truth is None else _accuracy(everyone.logits, after, truth),
                seeded=seeded,
            )
        )
    return done


def _turned(everyone: Situation, after: Floats, base: Floats | None, fresh: Floats | None) -> tuple[Turned, ...]:
    found = []
    turned = np.isfinite(after) & ((after > 0) != (everyone.logits > 0))
    for k in map(int, np.flatnonzero(turned)):
        seeds = None
        if base is not None and fresh is not None:
            decision = int(everyone.predictions[k])
            without, with_ = (decides_otherwise(logits[:, k], decision) for logits in (base, fresh))
            seeds = FreshSeeds.of(without, with_)
        row, group = plain(everyone.people.index[k]), plain(everyone.groups[k])
        found.append(Turned(k, row, group, float(everyone.logits[k]), float(after[k]), seeds))
    return tuple(found)


def _rates(everyone: Situation, after: Floats, adverse: int) -> dict[str, tuple[float, float]]:
    """The share of favourable decisions per group, before and after."""
    rates = {}
    for group in sorted(set(map(str, everyone.groups))):
        ours = everyone.groups.astype(str) == group
        before, then = (float(((logits[ours] > 0) != adverse).mean()) for logits in (everyone.logits, after))
        rates[group] = (before, then)
    return rates


def _accuracy(before: Floats, after: Floats, truth: NDArray[np.bool_]) -> tuple[float, float]:
    return float(((before > 0) == truth).mean()), float(((after > 0) == truth).mean())
