"""The measures of the card: a module a group, each with its `MEASURES`; `MEASURES` has all."""

from .whole import MEASURES as MEASURES
