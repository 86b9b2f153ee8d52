"""Experiments: a phenomenon of the theory, run and judged.

Each module is one experiment: `Config`, `run`, `CLAIMS`, `plot`, `PRESETS`. Its name is its path,
`<concept>/[<theme>/]<phenomenon>`, and the folder tree is the registry, read by `experiments.tree`.
"""
