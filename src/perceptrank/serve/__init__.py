"""The protocol as a service: rank, log the answer, acknowledge it, learn from it; nothing acknowledged is lost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "client": ["Client"],
        "errors": ["ServiceError"],
        "ranker": ["Ranker"],
        "service": ["Service"],
        "settings": ["Settings"],
        "verification": ["Verification", "verify"],
    },
)
