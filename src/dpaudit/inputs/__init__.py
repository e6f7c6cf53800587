"""What an audit reads: tables from files, and models that answer; and the checks of what is handed in.

`choice`, `count` and `items` refuse a value with one sentence: its name, the rule, what was found.
"""

from dpaudit._validate import choice, count, items

__all__ = ["choice", "count", "items"]
