# %% [markdown]
# # At least, at most
#
# Get a proven number instead of "not found": for ridge and nearest neighbours an audit says how many labels it takes at
# least, and names a set of that size which does it.

# %%
import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

import butfor

data = butfor.load_dataset("german")
audit = butfor.LabelAudit(RidgeClassifier(), budget=6)
audit.fit(data.X_train, data.y_train, sensitive_features="sex")
population = audit.explain_all(data.X_test, data.y_test, cases=range(40))
print(population)

# %% [markdown]
# The margin of a ridge classifier is a sum over the labels. So the strongest labels, as many as it takes, are the
# fewest that can change a decision. `at_least` is proven; `at_most` is the set that was found and confirmed by
# retraining.

# %%
for case in (0, 1, 3):
    verdict = population.about(case)
    print(
        f"{case}: {verdict.status}; at least {verdict.at_least}, at most {verdict.at_most}, exact: {verdict.exact}"
    )

# %% [markdown]
# `proven_none` says that no set within the budget exists. It still does not mean fair. Everybody examined, on the
# score's axis; a square hinges on few labels:

# %%
population.plot()

# %% [markdown]
# `brackets` gives the proofs alone, without a search, and beyond the budget: how many labels does it take for each of
# these people?

# %%
people = data.X_test[:40]
least = np.array([bracket.at_least for bracket in audit.brackets(people)])
print("ridge:", "median", np.median(least), "smallest", least.min(), "largest", least.max())

# %% [markdown]
# Of five nearest neighbours nobody's decision needs more than three labels, because no other label counts at all:

# %%
neighbours = butfor.LabelAudit(KNeighborsClassifier(5), budget=6, psi="everything")
neighbours.fit(data.X_train, data.y_train, sensitive_features="sex")
least = np.array([bracket.at_least for bracket in neighbours.brackets(people)])
print("neighbours:", "median", np.median(least), "smallest", least.min(), "largest", least.max())

# %% [markdown]
# What is proven about which model, and what a proof does not show: [proofs](../proofs.md).
