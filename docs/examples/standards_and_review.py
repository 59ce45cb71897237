# %% [markdown]
# # Standards, and a review
#
# See whether a group was labelled by another standard, have the labels reviewed that are most likely wrong, and see
# what the corrections change. The table is a part of the embedded Adult data (incomes in the US census of 1994) as
# it is, nothing planted; the label says whether a person earns more than 50 000 dollars a year.

# %%
from sklearn.linear_model import LogisticRegression

import butfor

data = butfor.load_dataset("adult")
family = ["relationship", "marital-status"]  # "Wife" and "Husband" tell the sex
X, y = data.X_train.drop(columns=family)[:1500], data.y_train[:1500]
X_test, y_test = data.X_test.drop(columns=family)[:300], data.y_test[:300]

audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"))
audit.fit(X, y, sensitive_features="sex", adverse="<=50K")
print(audit.standards())

# %% [markdown]
# A model of the other group's rows says what labels a group would have got. The last sentence is the one to remember:
# the difference is a suspicion with a number. Whose decisions would change, had the labels followed one standard?

# %%
for group in audit.one_standard(X_test, y_test):
    print(group.sentence)

# %% [markdown]
# ## Which labels to review first
#
# Every label has a doubt (the probability of the other label by the standard of the others); an adverse label of a
# group that falls short also has a probability of being wrong. The first in the order of review:

# %%
audit.labels().sort_values("rank").head(5).round(3)

# %% [markdown]
# The reviewer gets the first 50 labels among 50 decoys, shuffled, without the recorded label and the sex:

# %%
review = audit.review_tasks(labels=50)
print(review.sentence)
print(review.expectation)
review.shown[["age", "education-num", "occupation", "hours-per-week"]].head(4)

# %% [markdown]
# ## Answers
#
# **These answers are made up by a rule, for the example alone:** more than 50K for whoever has 13 years of education
# and works 40 hours a week, "cannot tell" under 25 years of age, else at most 50K. A real reviewer would look at the
# records of each person.


# %%
def answer(row):
    if row["age"] < 25:
        return "cannot tell"
    return ">50K" if row["education-num"] >= 13 and row["hours-per-week"] >= 40 else "<=50K"


answers = {task: answer(row) for task, row in review.shown.iterrows()}
review.shown.apply(answer, axis=1).value_counts()

# %% [markdown]
# ## What changes
#
# The corrections are made, the model is trained anew, and before and after stand side by side:

# %%
reviewed, corrected = audit.after_review(answers, X_test, y_test)
print("\n".join(reviewed.lines))

# %% [markdown]
# `corrected` is the audit of the corrected table: `corrected.review_tasks()` starts the next round and does not ask
# again what was answered. Accuracy is on the recorded test labels: where these carry the same bias, a better model can
# be right about fewer of them. The same on the command line, and how well it works: [reviews](../review.md),
# [standards](../standard.md).
