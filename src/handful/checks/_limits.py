"""What is checked, and how much of it is too much.

Every measure is a number that grows with what is wrong. It has two limits: above `doubtful` a
person should look at it, above `wrong` a model would learn nonsense from it. The limits have the
reasons that are given beside them. docs/checks.md has what good demonstrations measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np


class Check(Enum):
    """What can be wrong with a step; the value is how people read it."""

    CONTACT = "nothing between the fingers"
    HAND = "the hand is inside the scene"
    BELOW = "below the table"
    APPROACH = "the approach is not free"
    NO_GRASP = "no grasp cloud"
    FINGERS = "what is held is not at the fingers"
    HELD = "what is held is far from the scene"
    TAKEN = "what is held later is not where it was taken"
    LEVEL = "the scene is not z up"
    SEES_HAND = "the scene shows the hand"
    ALIKE = "demonstrations differ"
    TIP = "the contact point is beyond the fingers"
    AXIS = "the fingers are beside the opening axis"
    SHAPE = "grasp clouds show another hand"


@dataclass(frozen=True)
class Limit:
    """How much of a measure is too much.

    Attributes:
        doubtful: From here on a person should look.
        wrong: From here on training is stopped; infinite for what only may be wrong.
        unit: What the numbers count.
    """

    doubtful: float
    wrong: float
    unit: str


LIMITS = {
    # Beyond the space between the fingers, which is as deep as they are wide already.
    Check.CONTACT: Limit(0.01, 0.015, "m"),
    # Of 4 mm voxels: 4 are what the policy calls a collision, 25 are 4 square centimetres.
    Check.HAND: Limit(4, 25, "points"),
    Check.BELOW: Limit(0.03, 0.15, "share"),
    # Hands also come sideways, which nobody records: never an error.
    Check.APPROACH: Limit(6, np.inf, "points"),
    Check.NO_GRASP: Limit(0.5, 0.5, "missing"),
    # A held thing touches the fingers; a centimetre or two of it may be hidden from the cameras.
    Check.FINGERS: Limit(0.015, 0.03, "m"),
    # Things are let go some centimetres above a bin, but not two hands above it.
    Check.HELD: Limit(0.03, 0.2, "m"),
    # Share that was not seen in the scene. One camera sees about half of a thing.
    Check.TAKEN: Limit(0.55, 0.7, "share"),
    # Degrees. Calibrations are off by less; ramps are less steep.
    Check.LEVEL: Limit(8.0, 20.0, "degrees"),
    # Share of the hand's surface.
    Check.SEES_HAND: Limit(0.3, 0.5, "share"),
    # Metres by which clearances differ between demonstrations. Tasks may be as varied as they like.
    Check.ALIKE: Limit(0.04, np.inf, "m"),
    # Fingers hold with their pads: a contact point outside of them is a slip of the pen.
    Check.TIP: Limit(0.01, 0.02, "m"),
    Check.AXIS: Limit(10.0, 30.0, "degrees"),
    # Share of the hand's surface that a grasp cloud shows only where another hand would be.
    Check.SHAPE: Limit(0.25, np.inf, "share"),
}


PLAIN = (Check.NO_GRASP, Check.SEES_HAND, Check.AXIS, Check.APPROACH)
"""Checks that say themselves what is wrong: no usual mistake is looked for."""


@dataclass(frozen=True)
class Measure:
    """One number.

    Attributes:
        check: What it is about.
        demo: Name of the demonstration.
        step: Name of the step.
        target: Which of its targets.
        amount: In the unit of its limit.
    """

    check: Check
    demo: str
    step: str
    target: int
    amount: float

    @property
    def limit(self) -> Limit:
        """How much is too much."""
        return LIMITS[self.check]

    @property
    def wrong(self) -> bool:
        """Whether training is stopped for it."""
        return self.amount > self.limit.wrong

    @property
    def doubtful(self) -> bool:
        """Whether a person should look at it."""
        return self.amount > self.limit.doubtful

    @property
    def cost(self) -> float:
        """How bad it is, 0 to 4: 1 where it becomes doubtful or, without that range, wrong."""
        return float(min(self.amount / self.limit.doubtful, 4.0))
