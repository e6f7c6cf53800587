"""From a game or evidence to a verdict, and the record of how it was reached."""

from dpaudit.auditing.audit import audit, bounds_of, not_comparable, run, verdict_of
from dpaudit.auditing.challenge import Challenge, challenge
from dpaudit.auditing.plan import Settings

__all__ = ["Challenge", "Settings", "audit", "bounds_of", "challenge", "not_comparable", "run", "verdict_of"]
