"""Features that emerge in training: parities, intervals, dictionaries; against fixed features."""
