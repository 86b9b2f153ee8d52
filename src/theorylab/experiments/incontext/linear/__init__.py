"""Linear attention: its best rank, and what noise costs it."""
