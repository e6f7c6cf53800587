"""Paper 003: audits of a released model from members and non-members who differ by themselves."""
