"""The column the paper lacks: how many of a protocol's finds hold under other seeds.

Every find of a results file, true for the seed it was made with, is trained again under fresh
seeds, with the flips and without. The words are those of verdicts (`butfor.result.fresh`);
trainings are the engine's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from butfor.models.engines import choose_engine
from butfor.models.ensemble import fresh_seeds
from butfor.models.network import MLP, MLPLearner
from butfor.models.trainer import Trainer
from butfor.result.fresh import SOLIDITIES, FreshSeeds
from butfor.steps import check_finds, under_fresh_seeds
from butfor.table.embedded import load_dataset
from butfor.table.encoding import TableEncoder
from butfor.table.table import Table
from evaluation.results import PersonResult, Result
from evaluation.runs import Machinery


def over_seeds(
    results: Sequence[Result], ranks: Sequence[str], machinery: Machinery, seeds: int
) -> Iterator[dict[str, Any]]:
    """One row per data set and ranking: found, and of these solid, leaning, seed-bound, undecided;
    `majority`: those that more than half of the seeds turn."""
    for result in results:
        setting, run = result.setting, result.first
        data = load_dataset(result.dataset, setting.split_seed, data_home=machinery.data_home)
        model = MLP(
            setting.hidden,
            max_epochs=setting.max_epochs,
            batch_size=setting.batch_size,
            random_state=run.seed,
        )
        learner = MLPLearner(model, TableEncoder("embed", setting.numeric, setting.embedding_seed))
        table = Table(data.X_train, data.y_train, (data.X_val, data.y_val))
        for rank in ranks:
            if rank not in run.rankings:
                continue
            found = [person for person in run.rankings[rank].people if person.found]
            people = data.X_test.iloc[[person.case for person in found]]
            engine = choose_engine(machinery.device or machinery.engine, learner, machinery.jobs)
            trainer = Trainer(engine, learner, table, people, n_jobs=machinery.jobs)
            judged = _judged(trainer, found, fresh_seeds(learner, seeds)) if found else []
            words = Counter(fresh.word for fresh in judged)
            yield {
                "dataset": result.dataset,
                "ranking": rank,
                "found": len(found),
                **{word: words[word] for word in SOLIDITIES[:4]},
                "majority": sum(fresh.hold > 0.5 for fresh in judged),
                "seeds": seeds,
            }


def _judged(
    trainer: Trainer, found: Sequence[PersonResult], seeds: Sequence[int]
) -> list[FreshSeeds]:
    decisions = np.array([int(person.logit > 0) for person in found])
    finds = {k: person.positions for k, person in enumerate(found)}
    without = dict(under_fresh_seeds(seeds, range(len(found)), trainer))
    checked = check_finds(seeds, finds, without, decisions, trainer, first_look=len(seeds))
    return [fresh for _, fresh in sorted(checked)]
