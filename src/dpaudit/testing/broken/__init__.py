"""Mechanisms and trainers that are broken on purpose, one named bug each: what an audit must find."""
