"""Paper 002: what the answers of private prediction leak."""
