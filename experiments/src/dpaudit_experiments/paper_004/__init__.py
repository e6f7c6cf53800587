"""Paper 004: PANORAMIA, members of a released model against generated rows."""
