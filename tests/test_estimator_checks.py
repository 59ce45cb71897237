"""LabelAudit among scikit-learn's estimators: their common checks, tags, and metadata that is
routed to it."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import ClassifierTags, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from butfor import LabelAudit
from butfor.errors import TableError


def framed(X):
    return pd.DataFrame(X).add_prefix("x") if isinstance(X, np.ndarray) and X.ndim == 2 else X


class OfArrays(LabelAudit):
    """Names the columns of arrays and puts every other row into a group, as scikit-learn's checks
    do neither."""

    def fit(self, X, y):
        return super().fit(framed(X), y, sensitive_features=np.arange(np.shape(X)[0]) % 2)

    def predict(self, X):
        return super().predict(framed(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.classifier_tags = ClassifierTags(
            multi_class=False
        )  # their labels of more kinds occur once
        return tags


WORDS = "a refusal in butfor's words: "
ELSEWHERE = {
    "check_complex_data": WORDS + "it names the column and its type",
    "check_estimators_empty_data_messages": WORDS + "the table has no columns",
    "check_estimator_sparse_array": WORDS + "it needs a table with named columns",
    "check_estimator_sparse_matrix": WORDS + "it needs a table with named columns",
    "check_estimator_sparse_tag": WORDS + "it needs a table with named columns",
    "check_fit2d_predict1d": WORDS + "it needs a table with named columns",
    "check_n_features_in_after_fitting": WORDS
    + "it names the columns that are missing or too many",
    "check_requires_y_none": WORDS + "all labels are missing",
}


@parametrize_with_checks(
    [OfArrays(DecisionTreeClassifier(max_depth=3, random_state=0), fresh_seeds=0)],
    expected_failed_checks=lambda estimator: ELSEWHERE,
)
@pytest.mark.filterwarnings("default")
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


X = pd.DataFrame({"income": np.arange(40.0) % 13, "debts": np.arange(40.0) % 7})
Y = (X["income"] > X["debts"]).astype(int)
GROUP, WEIGHT = np.arange(40) % 2, np.where(Y == 1, 1.0, 30.0)


def test_it_knows_its_columns_and_says_what_it_takes():
    audit = LabelAudit(LogisticRegression(), fresh_seeds=0).fit(X, Y, sensitive_features=GROUP)
    assert audit.feature_names_in_.tolist() == ["income", "debts"]
    tags = get_tags(audit)
    assert tags.target_tags.required
    assert not tags.input_tags.two_d_array
    with pytest.raises(TableError, match="no columns"):
        LabelAudit(LogisticRegression()).fit(X[[]], Y, sensitive_features=GROUP)


def test_groups_and_weights_are_routed_to_it_and_on_to_a_pipeline_of_ones_own():
    decided = {}
    for weighted in (False, True):
        with config_context(enable_metadata_routing=True):
            own = make_pipeline(
                FunctionTransformer(), LogisticRegression().set_fit_request(sample_weight=True)
            )
            audit = LabelAudit(own, fresh_seeds=0).set_fit_request(
                sensitive_features=True, sample_weight=True
            )
            weights = {"sample_weight": WEIGHT} if weighted else {}
            pipeline = make_pipeline(FunctionTransformer(), audit).fit(
                X, Y, sensitive_features=GROUP, **weights
            )
        assert set(pipeline[-1].fitted_.sensitive.values) == {0, 1}
        decided[weighted] = pipeline.predict(X)
        plain = make_pipeline(FunctionTransformer(), LogisticRegression())
        scaled = {
            f"logisticregression__{name}": weight / np.mean(weight)
            for name, weight in weights.items()
        }
        plain.fit(X, Y, **scaled)
        assert np.array_equal(decided[weighted], plain.predict(X))
    assert decided[True].sum() < decided[False].sum()
