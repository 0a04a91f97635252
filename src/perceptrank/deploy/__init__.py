"""Models on their way to an engine: folded to raw features, exported, and compared with the engine's ranking."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "agreement": ["Parity", "parity"],
        "changes": ["Change"],
        "contributions": ["Contributions"],
        "explanation": ["Explanation", "explain"],
        "exports": ["Export", "export", "targets"],
        "folding": ["Folded", "fold"],
    },
)
