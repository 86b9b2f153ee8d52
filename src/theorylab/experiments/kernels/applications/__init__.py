"""Tangent kernels at work: images, tables, matrices and structures."""
