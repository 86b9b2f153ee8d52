"""Decision lists: a transformer of one layer learns them by training attention and values."""
