"""What one PANORAMIA game heard of one target, and the numbers that its figures and tables are made of (paper 004)."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.evidence import CanaryScores, PairedScores


@dataclass(frozen=True, kw_only=True, eq=False)
class Heard:
    """One game on one target.

    Attributes
    ----------
    modality, target
        "images", "texts" or "tables", and the target's name, such as "CNN, 40 epochs".
    family, degree
        Targets that one figure puts side by side ("epochs", "epsilon", "size"), and the place of this one among them:
        epochs, the epsilon it was trained with (infinite: not private), or parameters.
    game
        Which of the games on the same target: other parts, other coins.
    generated
        Real members against generated rows (RM;GN).
    real
        Real members against real non-members, the same guessers (RM;RN): closeness 0 holds by construction.
    one_run
        The same pairs of members and non-members, scored by the target's loss alone (O(1)).
    train, test
        Accuracy (texts: loss) of the target on its members, and on real non-members.
    """

    modality: str
    target: str
    family: str
    degree: float
    game: int
    generated: PairedScores
    real: PairedScores | None = None
    one_run: CanaryScores | None = None
    train: float = 0.0
    test: float = 0.0
