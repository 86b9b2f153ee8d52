"""What a constant tangent kernel predicts of training: times, means and spreads."""
