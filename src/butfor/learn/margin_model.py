"""A model of more than two classes under a question: with a logit, as rankings, rules and pages know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import Floats, Model, Numbers, Table
from butfor.learn.question import Question

PROOFS = {"sum of the labels": "moved sums", "neighbours": "moved votes"}
"""What is left of a model's proof where flips move weight from one class to another."""


class MarginModel(Model):
    """`logits` is the question's margin; what else `model` can do is about that margin too."""

    def __init__(self, model: Model, question: Question) -> None:
        self.model, self.question = model, question
        self.encoder, self.linear, self.trees, self.network = model.encoder, model.linear, model.trees, model.network
        self.proof = None if question.decided is None else PROOFS.get(model.proof or "")
        self.rows = None if model.rows is None else replace(model.rows, question=question)

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.question.margins(self.model.scores(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.model.scores(people)

    @property
    def members(self) -> Sequence[Model]:
        inside = self.model.members
        return (self,) if len(inside) == 1 else tuple(MarginModel(member, self.question) for member in inside)

    def person_keys(self, people: pd.DataFrame) -> list[int]:
        return self.model.person_keys(people)

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        return self.model.numbers(table, people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        return self.model.pulls(people, self._contrast(people)) if len(people) else []

    def flip_effects(
        self,
        table: Table,
        people: pd.DataFrame,
        weights: NDArray[Any] | None = None,
        contrast: Floats | None = None,
    ) -> NDArray[np.float64]:
        return self.model.flip_effects(table, people, weights, self._contrast(people) if contrast is None else contrast)

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self.model.neighbours(people)

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        return self.model.leaves(rows)

    def _contrast(self, people: pd.DataFrame) -> Floats:
        return self.question.contrast(self.model.scores(people))


def under(model: Model, question: Question | None) -> Model:
    """The model under a question; of two classes as it is."""
    inside = model.model if isinstance(model, MarginModel) else model
    return inside if question is None else MarginModel(inside, question)
