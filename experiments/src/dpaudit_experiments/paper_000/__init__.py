"""Paper 000, "Observational Auditing of Privacy", and models trained on private labels."""
