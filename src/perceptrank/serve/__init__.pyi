from .client import Client as Client
from .errors import ServiceError as ServiceError
from .ranker import ServedRanker as ServedRanker
from .service import Service as Service
from .settings import Settings as Settings
from .verification import Verification as Verification
from .verification import verify as verify
