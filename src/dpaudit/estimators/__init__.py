"""Evidence in, bound out: pure functions. The name says what is bounded, and from what."""
