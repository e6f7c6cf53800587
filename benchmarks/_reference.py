"""A fixed loop, so that seconds can be compared between machines."""

import time


def reference_loop() -> float:
    """Seconds for a million additions in plain Python."""
    began = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return time.perf_counter() - began
