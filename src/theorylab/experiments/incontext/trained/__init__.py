"""Transformers trained on prompts: the regressions that they do in context."""
