"""Rankings: which training labels to flip first for a person.

A ranking has a `name` and one method, ``score(model, table, people) -> [people × training rows]``,
higher meaning "flip first"; `Ranking` lists its further abilities. A person's scores do not depend
on the other people. A plain function with the signature of `score` is a ranking for every model."""

from butfor.search.rankings.named import NAMES, as_ranking
from butfor.search.rankings.ranking import Ranking, Scores, checked_scores

__all__ = ["NAMES", "Ranking", "Scores", "as_ranking", "checked_scores"]
