# %% [markdown]
# # One person
#
# Ask which few training labels a decision about one person hinges on, and read the answer. The table is the embedded
# German credit data, the model a logistic regression: no PyTorch is needed, and no seed matters.

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor

data = butfor.load_dataset("german")
model = LogisticRegression(solver="newton-cholesky")
audit = butfor.LabelAudit(model, budget=6)
audit.fit(data.X_train, data.y_train, sensitive_features="sex")
verdict = audit.explain(data.X_test.iloc[[9]])
print(verdict)

# %% [markdown]
# At most 6 of the 600 labels were allowed to flip. The verdict names those that suffice; the model's own `fit` was
# trained on the flipped labels before the sentence was written. Here is the person beside these training rows, in the
# table's own units (some of the columns):

# %%
verdict.to_frame().T[["label before", "label after", "duration", "amount", "age", "sex"]]

# %% [markdown]
# No smaller part of the set works: every set that leaves out one of its labels was tried. `distance` is how many labels
# it takes, `solidity` whether the find holds under fresh seeds.

# %%
print(verdict.status, verdict.minimal, verdict.distance, verdict.solidity)

# %% [markdown]
# `dataset()` returns the counterfactual dataset, so that anyone can check the claim without butfor's search. The
# encoder is the one that the audit put in front of the model.

# %%
X, flipped = verdict.dataset()
person = data.X_test.iloc[[9]]
for labels in (data.y_train, flipped):
    again = make_pipeline(butfor.TableEncoder(), LogisticRegression(solver="newton-cholesky")).fit(
        X, labels
    )
    print(
        again.decision_function(person).round(2), "->", data.label_names[again.predict(person)[0]]
    )

# %% [markdown]
# Not everybody is found within the budget, and not found never means fair. For this person it only says how near the
# search came:

# %%
print(audit.explain(data.X_test.iloc[[6]]))

# %% [markdown]
# A find does not say that a label is wrong. It says that this decision depends on it: a reason to have it reviewed.
# What the words of a verdict mean is said in [Can I believe it?](../trust.md); how many labels it takes at least is
# proven for [some models](proofs.md).
