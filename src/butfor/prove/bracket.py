"""What is proven about one person."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.learn.protocols import FlipSet


@dataclass(frozen=True)
class Bracket:
    """No allowed flip set of fewer than `at_least` labels turns the decision; more than all that may be flipped means
    that none does. `witness`: a set of that very size which does, where the prover knows one. `how` names the proof."""

    at_least: int
    how: str
    witness: FlipSet | None = None
