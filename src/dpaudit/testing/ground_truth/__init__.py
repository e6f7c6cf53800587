"""Ground truth: mechanisms whose privacy is known exactly, as samplers of evidence for coverage tests.

See theory:ground-truth#mechanisms.
"""

from dpaudit.testing.ground_truth.answers import (
    AnsweredRows,
    RecognisedRows,
    SteepRows,
    promoted_rows,
    steep_cells,
    steep_rows,
)
from dpaudit.testing.ground_truth.mixtures import gaussian_mixture
from dpaudit.testing.ground_truth.outputs import (
    GeneratedPairs,
    LatentBit,
    NoisyVotes,
    OutsideSupport,
    ShiftedMembers,
    SignSum,
    SignSumMembers,
)
from dpaudit.testing.ground_truth.scores import (
    MULTI_MODE,
    CorrelatedRows,
    GaussianRuns,
    GaussianSteps,
    GaussianStream,
    GroundTruth,
    KaryResponseCanaries,
    LaplaceRuns,
    LeakyResponseRuns,
    ModeMixing,
    NoisyCanaries,
    ResponseCanaries,
    ResponseRows,
    SubsampledGaussianRuns,
    least_mu,
    single_mode,
)

__all__ = [
    "MULTI_MODE",
    "AnsweredRows",
    "CorrelatedRows",
    "GaussianRuns",
    "GaussianSteps",
    "GaussianStream",
    "GeneratedPairs",
    "GroundTruth",
    "KaryResponseCanaries",
    "LaplaceRuns",
    "LatentBit",
    "LeakyResponseRuns",
    "ModeMixing",
    "NoisyCanaries",
    "NoisyVotes",
    "OutsideSupport",
    "RecognisedRows",
    "ResponseCanaries",
    "ResponseRows",
    "ShiftedMembers",
    "SignSum",
    "SignSumMembers",
    "SteepRows",
    "SubsampledGaussianRuns",
    "gaussian_mixture",
    "least_mu",
    "promoted_rows",
    "single_mode",
    "steep_cells",
    "steep_rows",
]
