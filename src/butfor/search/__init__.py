"""The searches: which flip sets are trained for a person, one after the other.

A search is a generator. It yields questions and gets their answers; `schedule` trains the sets of
all people together.

    flip set, or a list of them    → the gain of each: the person's logit towards the other
                                     decision, above 0 if the decision changes; NaN if the training
                                     diverged
    Try(sets, members)             → gains of single members of an ensemble, `[sets × members]`
    Confirm(flips)                 → whether the model's own `fit` confirms that the set changes the
                                     decision
    Rank(flips)                    → the other rows, best first, ranked anew after these flips

All gains known so far are in `person.gains`, also those of sets that were trained for other people
and that ψ allows. A search returns the set that it found, or None. It need not know about limits or
Ctrl-C: the scheduler closes it, and confirms the person's smallest set that works.

It knows models and tables, and nothing of groups' standards. Begin with `person.py` (what a search
sees), then `published.py`; `schedule.py` runs the searches, `rules.py` has φ and ψ.
"""

from butfor.search.gains import Gains
from butfor.search.person import Confirm, Person, Rank, Search, Try, flip_set

__all__ = ["Confirm", "Gains", "Person", "Rank", "Search", "Try", "flip_set"]
