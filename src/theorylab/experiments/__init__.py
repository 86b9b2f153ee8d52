"""Experiments: a phenomenon of the theory, run and judged.

Each module is one experiment: `Config`, `run`, `CLAIMS`, `plot`, `PRESETS`. Its name is its path,
`<concept>/<phenomenon>`, and the folder tree is the registry: `experiments.tree` reads it.
"""
