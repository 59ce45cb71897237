# %% [markdown]
# # Your own pipeline, many people
#
# Audit the model you use, about many people at once, and see which labels their decisions hinge on. The pipeline is
# scikit-learn's, with preprocessing of its own; it gets the raw table.

# %%
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import butfor

data = butfor.load_dataset("german")
words = make_column_selector(dtype_exclude="number")
columns = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), words), remainder=StandardScaler()
)
pipeline = make_pipeline(columns, LogisticRegression(C=0.3, solver="newton-cholesky"))

# %% [markdown]
# Here the model must not see the protected attribute, so the attribute is passed separately, as in fairlearn. The rule
# φ, which asks whether a switch of the attribute changes the decision, then admits everyone.

# %%
sex_train, sex_test = data.X_train["sex"], data.X_test["sex"]
audit = butfor.LabelAudit(pipeline, budget=6)
audit.fit(data.X_train.drop(columns="sex"), data.y_train, sensitive_features=sex_train)
population = audit.explain_all(
    data.X_test.drop(columns="sex"), data.y_test, sensitive_features=sex_test, cases=range(60)
)
print(population)

# %% [markdown]
# Per group: how many people were audited, and for what share of them a flip set was found. Only labels of the person's
# own group may flip, so groups of different sizes have different shares by construction: a gap here is no finding by
# itself ([are groups really different?](../trust.md#are-groups-really-different)).

# %%
population.by_group[["people", "eligible", "share", "median_margin"]].round(2)

# %% [markdown]
# Everybody examined on the score's axis; a square hinges on few labels. `population.distance_curve()` has the share of
# decisions that k labels change:

# %%
population.plot()

# %% [markdown]
# Keystones are labels that several decisions hinge on:

# %%
population.keystones.head()[["people", "cases", "label before", "duration", "amount", "age"]]

# %% [markdown]
# The model's accuracy, beside that of always guessing the commoner label, and its rates per group:

# %%
performance = population.performance
print(f"accuracy {performance.accuracy:.3f}, commoner label {performance.majority:.3f}")
performance.rates[
    ["selection_rate", "error_rate", "false_positive_rate", "false_negative_rate"]
].round(2)

# %% [markdown]
# `population.to_html("report.html")` writes the page, `population.to_json("audit.json")` the record that `butfor
# replay` retrains. What is accepted as a model: [any model](../models.md).
