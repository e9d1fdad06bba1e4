"""What can go wrong between a caller and the service."""

from __future__ import annotations

from handful.errors import HandfulError


class ClientError(HandfulError):
    """The service did not answer as asked; the root of the others."""


class RefusedError(ClientError):
    """The service refused the request, and would again.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class DeadlineError(ClientError):
    """There was no answer in time."""


class ConnectionLostError(ClientError):
    """The service cannot be reached, or broke off."""
