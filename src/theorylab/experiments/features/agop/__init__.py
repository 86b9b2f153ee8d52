"""Average gradient outer products: feature learning by catapults, penalties and recursion."""
