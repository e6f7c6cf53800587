"""The command line; `main` is its entry point."""

from dpaudit.cli import account, audits, challenge, estimate, reproduce
from dpaudit.cli._app import app, main

__all__ = ["account", "app", "audits", "challenge", "estimate", "main", "reproduce"]
