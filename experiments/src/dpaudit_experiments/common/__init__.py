"""What the papers' experiments share.

| part | what it is |
|---|---|
| `figure`, `outcome` | one figure of a paper: what is measured, what it says, and how it is written down |
| `drawing` | an outcome as a picture (SVG) |
| `scales`, `tasks`, `audits` | sizes, learning tasks and audits of trained runs |
| `metrics` | numbers of figures from evidence of PANORAMIA's games |
| `image_models` | networks for small pictures |
| `arrays` | arrays that the jobs of an experiment share, made once |
"""
