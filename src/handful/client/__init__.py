"""A client of `handful serve`. Needs numpy and httpx: neither torch nor the rest of handful."""

from ._async_client import AsyncClient as AsyncClient
from ._async_client import AsyncTrack as AsyncTrack
from ._client import Client as Client
from ._client import Track as Track
from ._errors import ClientError as ClientError
from ._errors import ConnectionLostError as ConnectionLostError
from ._errors import DeadlineError as DeadlineError
from ._errors import RefusedError as RefusedError
from ._questions import CloudLike as CloudLike
from ._questions import View as View
from ._retries import Retries as Retries
