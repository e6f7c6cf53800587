"""Models that the auditor fits besides the audited one.

| part | what is fitted |
|---|---|
| `propensity` | how likely each record is a member, given its features |
| `designs` | what a value is likely to be, given columns of numbers and names |
| `dependence` | whether rows hang together beyond that |
| `generators` | non-members that are made, not found |
| `encoders` | networks that turn a picture or a text into what a guesser sees of it |
"""
