"""The record of an audit: everything that was planned, spent, seen and concluded, as one value and one JSON file.

The JSON has a version and a published schema (`schema-2.json` beside this file); a file that does not follow it is
refused, files of format 1 still load. Nothing in a record is executed, and no number in a report comes from anywhere
else. Sentences are made once, when the record is, so that it prints alike for ever. Two records of one plan are equal
except for `timings`.

`write` and `write_text` write any file whole or not at all, as records are.
"""

from dpaudit._files import folder, write, write_text
from dpaudit.record.files import load_audit, load_audits, schema
from dpaudit.record.values import Audit, Audits, as_audits, plain, printable

__all__ = [
    "Audit",
    "Audits",
    "as_audits",
    "folder",
    "load_audit",
    "load_audits",
    "plain",
    "printable",
    "schema",
    "write",
    "write_text",
]
