"""Paper 001: canaries and audits for substitution."""
