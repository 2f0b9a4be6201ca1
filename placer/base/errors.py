"""Errors that a user can act on. A command prints the message and exits with code 2."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave is wrong: says what, the value seen, what is allowed, what to do."""


class DoesNotFitError(InputError):
    """The workload needs more of a resource than the fabric has."""

    def __init__(self, resource: str, demand: int, limit: int, advice: str) -> None:
        self.resource = resource
        self.demand = demand
        self.limit = limit
        self.advice = advice
        super().__init__(
            f"does not fit: {resource} needed {demand}, the fabric has {limit} (short by {demand - limit}); {advice}"
        )

    def __reduce__(self) -> tuple[type[DoesNotFitError], tuple[str, int, int, str]]:
        """Return how to make it anew: workers send it to the process that asked them."""
        return type(self), (self.resource, self.demand, self.limit, self.advice)
