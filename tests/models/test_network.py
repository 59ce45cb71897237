"""The network: the classifier around it, the local linear model; errors and stops of `butfor.nets`
become ours."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from butfor import MLP
from butfor.models import network
from butfor.support import stopping

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2


@parametrize_with_checks([MLP(max_epochs=100)])
@pytest.mark.filterwarnings("default")
def test_mlp_is_a_scikit_learn_classifier(estimator, check):
    check(estimator)


WRONG = [
    *((setting, {}, f"^{next(iter(setting))}") for setting in (
        {"hidden": (0,)}, {"activation": "gelu"}, {"learning_rate": 0}, {"max_epochs": 0}, {"patience": 0},
        {"batch_size": 0}, {"validation_fraction": 1.5}, {"random_state": -1},
    )),
    ({}, {"y": np.zeros(40)}, "only one class"),
    ({}, {"y": [0] * 20 + [1] * 19 + [2]}, "occurs in one row only"),
    ({}, {"y": [0] * 39 + [1]}, "too few"),
    ({}, {"validation": (X[:, :2], Y)}, "columns"),
    ({}, {"validation": (X, Y + 5)}, "which no training row has"),
    ({}, {"validation": (X, Y[:3])}, "numbers of samples"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "given", "said"), WRONG)
def test_what_cannot_be_learned_is_refused(settings, given, said):
    with pytest.raises(ValueError, match=said):
        MLP(**settings).fit(**{"X": X, "y": Y} | given)


def test_stops_reach_the_engine(monkeypatch):
    asked = []
    monkeypatch.setattr(stopping, "check", lambda: asked.append(1))
    rows = network.Rows(X, Y, X, Y)
    network.NetworkEngine(n_jobs=1).fit_many(MLP(max_epochs=2).recipe(), rows, [()], X)
    assert asked
