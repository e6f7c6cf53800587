"""What an audit says: bounds that remember how they were made (`values`), and the verdict on a claim (`verdict`).

Sound implications between relations are explicit functions (`on_substitute`, `on_add_remove`), never silent.
"""

from dpaudit.bounds.values import (
    ALIKE,
    BOUNDS,
    CURVE_FAMILY,
    GAUSSIAN_ASSUMPTION,
    GENERATOR_DIVERGENCE,
    GUARANTEES,
    WITH_SLACK,
    Bound,
    LowerBound,
    PanoramiaRegion,
    Relation,
    RenyiBound,
    UpperBound,
    convert,
    family_assumption,
    guarantee_of,
    relation,
)
from dpaudit.bounds.verdict import (
    NotComparable,
    Outcome,
    Verdict,
    check_comparable,
    check_family,
    compare,
    decide,
    on_add_remove,
    on_substitute,
)

__all__ = [
    "ALIKE",
    "BOUNDS",
    "CURVE_FAMILY",
    "GAUSSIAN_ASSUMPTION",
    "GENERATOR_DIVERGENCE",
    "GUARANTEES",
    "WITH_SLACK",
    "Bound",
    "LowerBound",
    "NotComparable",
    "Outcome",
    "PanoramiaRegion",
    "Relation",
    "RenyiBound",
    "UpperBound",
    "Verdict",
    "check_comparable",
    "check_family",
    "compare",
    "convert",
    "decide",
    "family_assumption",
    "guarantee_of",
    "on_add_remove",
    "on_substitute",
    "relation",
]
