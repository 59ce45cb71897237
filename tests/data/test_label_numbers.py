"""Labels by name, value and number."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.data.labels import label_names, label_number
from butfor.errors import SettingError, nearest


def test_text_is_its_own_name_and_other_values_stand_after_their_column():
    assert label_names(["bad", "good"], "credit") == ("bad", "good")
    assert label_names(["no", "yes"], "approved") == ("approved = no", "approved = yes")
    assert label_names(np.array([False, True]), "approved") == ("approved = False", "approved = True")
    assert label_names(np.array([0, 1])) == label_names([0, 1], "") == ("0", "1")


@pytest.mark.parametrize("given", ["approved = True", "True", True, np.True_])
def test_a_label_is_known_by_its_name_and_by_its_value(given):
    assert label_number(given, ("approved = False", "approved = True")) == 1
    assert label_number(7, ("bad credit", "good credit"), [3, 7]) == 1


def test_an_unknown_label_is_answered_with_the_nearest():
    with pytest.raises(SettingError, match=r"^towards: there is no label 'TRUE'\. Did you mean 'True'\?$"):
        label_number("TRUE", ("approved = False", "approved = True"), option="towards")
    with pytest.raises(SettingError, match=r"^adverse: there is no label 'x'\. The labels are 'False', 'True'\.$"):
        label_number("x", ("approved = False", "approved = True"))


def test_the_nearest_of_names():
    assert nearest("sexx", ["age", "sex"]) == "Did you mean 'sex'?"
    assert nearest("zzz", ["age", "sex"], "The table has") == "The table has 'age', 'sex'."
    assert nearest(5, ["sex", "age"], most=1) == "Choose one of 'sex' and 1 more."


def test_truth_values_of_a_series_are_called_after_it():
    X = pd.DataFrame({"x": range(40), "sex": ["f", "m"] * 20})
    y = pd.Series([k % 3 > 0 for k in range(40)], name="approved")
    audit = butfor.LabelAudit(LogisticRegression()).fit(X, y, sensitive_features="sex")
    assert audit.explain(X.iloc[[1]]).prediction == "approved = True"
    bare = audit.fit(X, y.to_numpy(), sensitive_features="sex")
    assert bare.explain(X.iloc[[1]]).prediction == "True"
