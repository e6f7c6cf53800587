"""What is audited. For now: mechanisms whose privacy is known exactly, as samplers of evidence."""

from dpaudit.mechanisms import noise

__all__ = ["noise"]
