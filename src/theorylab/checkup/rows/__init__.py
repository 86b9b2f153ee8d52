"""The measures of the card: a module a group, each with its `MEASURES`."""
