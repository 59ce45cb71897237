# %% [markdown]
# # Parts of your own
#
# Put a learner, a ranking, a strategy or an engine of your own into an audit: each is a few lines, shown here and run
# on the embedded German credit data.

# %%
import numpy as np
from sklearn.linear_model import LogisticRegression

import butfor

data = butfor.load_dataset("german")
logistic = LogisticRegression(solver="newton-cholesky")


def ask(audit, cases=range(10)):
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    print(audit.explain_all(data.X_test, data.y_test, cases=cases))


# %% [markdown]
# ## A learner
#
# Derive from `butfor.Learner` and `butfor.Model`. `table.X` is the raw training table; labels come as 0 and 1; a model
# answers raw people with logits, above 0 for class 1. `seeded` is False unless the class says otherwise; a learner with
# a seed also has `reseeded(seed)`. `record()` is what the ledger tells learners apart by. A model that can do more
# has further methods (`leaves`, `flip_effects`, …: see `butfor.Model`); rankings that need them then accept it.


# %%
class NearestAlong(butfor.Learner):
    name = "nearest along one column"

    def __init__(self, column):
        self.column = column

    def fit(self, table, labels):
        return Fitted(self.column, table.X[self.column].to_numpy(), labels)

    def record(self):
        return {"kind": "nearest", "column": self.column}


class Fitted(butfor.Model):
    def __init__(self, column, values, labels):
        self.column, self.values, self.labels = column, values, labels

    def logits(self, people):
        nearest = np.abs(people[self.column].to_numpy()[:, None] - self.values).argmin(axis=1)
        return (2 * self.labels[nearest] - 1).astype(np.float32)


ask(butfor.LabelAudit(NearestAlong("amount"), budget=1))

# %% [markdown]
# To replay such a verdict pass the audit again: `butfor.replay(record, audit=audit)`.
#
# ## A ranking
#
# A function of the trained model, the training table and the people. It returns one row of scores per person, higher
# meaning "flip first". An object with `score(model, table, people)` will do too; a subclass of `butfor.Ranking` can say
# more (`accepts`, `needs`, `signed`, `predicts`, …).


# %%
def doubtful_first(model, table, people):
    """Labels the model itself finds hard to believe, the same for everyone."""
    logits = model.logits(table.X)
    doubt = np.where(table.zero_one == 1, -logits, logits)
    return np.tile(doubt, (len(people), 1))


ask(
    butfor.LabelAudit(
        logistic, rank=doubtful_first, strategy="algorithm1", psi="same_group", budget=6
    )
)

# %% [markdown]
# ## A strategy
#
# A generator function of a person. `yield` a flip set, or a list of them, and get the gains: the logit towards the
# other decision after training on these flips, above 0 if the decision changes. `person.order` holds the flippable
# rows, best first, `person.best(k)` the first k of them, `person.budget` how many labels may flip, and `person.gains`
# everything known so far, also from models that were trained for other people. Return the set that was found: it counts
# once the model's own `fit` confirms it.


# %%
def pairs(person):
    """The best two labels, then the next two, and so on."""
    for k in range(0, min(10, len(person.order) - 1), 2):
        flips = tuple(person.order[k : k + 2])
        gain = yield flips
        if gain > 0:
            return flips


ask(butfor.LabelAudit(logistic, strategy=pairs, budget=2))

# %% [markdown]
# ## An engine
#
# Derive from `butfor.Engine`. Bound to a learner, a table and people, it gives a function that trains lists of flip
# sets, or None if it does not train this learner. A training is (flips, seed); seed None is the learner's own. What it
# finds is confirmed by the model's own `fit`, unless the engine declares itself to be the definition (`Bound`).


# %%
class OneAfterTheOther(butfor.Engine):
    name = "one after the other"

    def bind(self, learner, table, people):
        def train(trainings, advance=None):
            learners = [
                learner if seed is None else learner.reseeded(seed) for _, seed in trainings
            ]
            fits = [
                one.fit(table, table.labels(t.flips))
                for one, t in zip(learners, trainings, strict=True)
            ]
            return np.array([model.logits(people) for model in fits], np.float32)

        return train


ask(butfor.LabelAudit(logistic, engine=OneAfterTheOther(), budget=2), cases=range(4))
