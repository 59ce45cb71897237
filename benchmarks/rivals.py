"""Published ways to find wrong labels, beside `wrong` in `benchmarks.bias`: the main idea of each, as abstracts and
descriptions give it. They have not been compared with the full papers or with the authors' code.

Each takes all training rows: inputs without the protected attribute, which labels are favourable, and everybody's
group. Each returns one number per label: the higher, the more likely the label is wrong. All use scikit-learn's
models with its settings, but for the number of trees. The papers decide which labels to change; here the same numbers
order all labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def fair_label(inputs: Floats, favourable: Mask, groups: NDArray[np.str_]) -> Floats:
    """FairLabel (Sengamedu and Pham 2023, arXiv 2311.00638).

    A model that learned from the other groups predicts the labels of a group with a lower favourable rate. Adverse
    labels are changed where it predicts the favourable one. Simplified: its probability is the score, there is no
    threshold, and a group is one that has a lower rate than all others together.
    """
    found = np.zeros(len(favourable))
    for group in np.unique(groups):
        inside = groups == group
        if favourable[inside].mean() < favourable[~inside].mean():
            others = HistGradientBoostingClassifier(random_state=0).fit(inputs[~inside], favourable[~inside])
            found[inside] = others.predict_proba(inputs[inside])[:, 1]
    return np.where(favourable, 0.0, found)


def fair_obnc(inputs: Floats, favourable: Mask, groups: NDArray[np.str_], trees: int = 50) -> Floats:
    """Fair-OBNC (Oliveira e Silva and others, ECAI 2024, arXiv 2410.06214).

    Trees on random halves of the rows vote on every label; labels are changed in the order of the votes against
    them, those first that bring the groups' favourable rates together. Simplified: labels that would drive the rates
    apart come after all others, rates are not updated after each change, and there is no limit to the changes. The
    trees do not see the attribute.
    """
    ensemble = BaggingClassifier(DecisionTreeClassifier(), trees, max_samples=0.5, random_state=0)
    votes = ensemble.fit(inputs, favourable).predict_proba(inputs)[:, 1]
    found = np.where(favourable, 1 - votes, votes)
    for group in np.unique(groups):
        inside = groups == group
        short = favourable[inside].mean() < favourable[~inside].mean()
        found[inside & (favourable == short)] -= 1
    return np.asarray(found, np.float64)


def decole(inputs: Floats, favourable: Mask, groups: NDArray[np.str_]) -> Floats:
    """DeCoLe (Li, De-Arteaga and Saar-Tsechansky 2025, arXiv 2507.07216).

    Confident learning within each group: a model of the group's rows alone gives each label a cross-validated
    probability of being the other one. The label is called wrong if that is at least the mean probability of those
    who have the other label. Simplified: the score is the probability less that threshold, of one boosting.
    """
    found = np.zeros(len(favourable))
    for group in np.unique(groups):
        inside = groups == group
        labels = favourable[inside]
        model = HistGradientBoostingClassifier(random_state=0)
        probability = cross_val_predict(model, inputs[inside], labels, method="predict_proba")[:, 1]
        adverse, threshold = 1 - probability, probability[labels].mean()
        found[inside] = np.where(labels, adverse - adverse[~labels].mean(), probability - threshold)
    return found


RIVALS = {"FairLabel": fair_label, "Fair-OBNC": fair_obnc, "DeCoLe": decole}
