"""Quadratic models: phases of the learning rate, one example and several, and what remains."""
