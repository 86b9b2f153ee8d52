"""Features in the gradient: what the first steps learn of mixtures, parities and polynomials."""
