"""Which training labels to flip first for a person: a ranking per name, and the mix of them that a
trial chooses. Begin with `ranking.py`; what each does stands in `named.py`.
"""

from butfor.search.rankings.named import NAMES, as_ranking
from butfor.search.rankings.ranking import Ranking, Scores, checked_scores

__all__ = ["NAMES", "Ranking", "Scores", "as_ranking", "checked_scores"]
