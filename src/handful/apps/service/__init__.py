"""`handful serve`: trained models behind an HTTP address."""

from ._config import ServiceConfig as ServiceConfig
from ._config import check_service as check_service
from ._front import create_app as create_app
from ._pool import LocalPool as LocalPool
from ._ray_pool import RayPool as RayPool
from ._serve import serve as serve
