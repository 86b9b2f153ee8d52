"""Loss spikes of SGD: catapults in the top eigenspace of the tangent kernel."""
