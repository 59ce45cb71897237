# %% [markdown]
# # Standards, and a review
#
# See whether a group's labels are held to another standard, have the labels reviewed whose review is worth most, and see
# what the corrections change. The table is the embedded German credit data as it is, nothing planted; the groups are
# applicants under 26 and the others.

# %%
import pandas as pd
from sklearn.linear_model import LogisticRegression

import butfor

data = butfor.load_dataset("german")
X, y = pd.concat([data.X_train, data.X_val]), pd.concat([data.y_train, data.y_val])
audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"))
audit.fit(X, y, sensitive_features="age", sensitive_bands=[26], adverse="bad credit")
print(audit.standard_)

# %% [markdown]
# A model of the other group's rows says what labels a group would have got. The last sentence is the one to remember: the
# difference is a suspicion with a number. Who would be decided otherwise, had the labels followed one standard?

# %%
for group in audit.one_standard(data.X_test, data.y_test):
    print(group.sentence)

# %% [markdown]
# ## Which labels to review first
#
# Every label has a doubt (the probability of the other label by the standard of the others) and a value (doubt² × what
# flipping it does to people of its group who are refused). The most valuable:

# %%
audit.review_frame().sort_values("rank").head(5)[["label", "group", "doubt", "value", "wrong", "rank"]].round(3)

# %% [markdown]
# The reviewer gets the 20 most valuable labels among 20 decoys, shuffled, without the recorded label and the age:

# %%
review = audit.review_tasks(labels=20)
print(review.sentence)
print(review.expectation)
review.shown[["status", "duration", "amount", "savings"]].head(4)

# %% [markdown]
# ## Answers
#
# **These answers are made up by a rule, for the example alone:** good credit where the credit runs for at most two years and
# the account is not overdrawn, "cannot tell" where nothing is known of the savings, else bad credit. A real reviewer would look
# at the file of each case.


# %%
def answer(row):
    if row["savings"] == "none known":
        return "cannot tell"
    return "good credit" if row["duration"] <= 24 and row["status"] != "below 0 DM" else "bad credit"


answers = {task: answer(row) for task, row in review.shown.iterrows()}
pd.Series(answers).value_counts()

# %% [markdown]
# ## What changes
#
# The corrections are made, the model is trained anew, and before and after stand side by side:

# %%
reviewed, corrected = audit.after_review(answers, data.X_test, data.y_test)
print(reviewed.sentence)
for line in reviewed.lines:
    print("-", line)

# %% [markdown]
# `corrected` is the audit of the corrected table: `corrected.review_tasks()` starts the next round and does not ask
# again what was answered. Accuracy is on the recorded test labels: where these carry the same bias, a better model can
# be right about fewer of them. The same on the command line, and how well it works: [reviews](../review.md),
# [standards](../standard.md).
