"""From a game or evidence to a verdict, and the record of how it was reached."""

from dpaudit.auditing._conduct import Settings, audit, bounds_of, conduct, not_comparable, usable, verdict_of
from dpaudit.auditing.challenge import Challenge, challenge
from dpaudit.auditing.record import Audit, Audits, as_audits, load_audit, load_audits, plain, schema

__all__ = [
    "Audit",
    "Audits",
    "Challenge",
    "Settings",
    "as_audits",
    "audit",
    "bounds_of",
    "challenge",
    "conduct",
    "load_audit",
    "load_audits",
    "not_comparable",
    "plain",
    "schema",
    "usable",
    "verdict_of",
]
