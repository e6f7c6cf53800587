"""Audits of training loops that other libraries run, one room a library."""
