"""Online learning to rank: perceptron-like learners, their measures, surrogates and guarantees.

The public names are those of the stub beside this file; each is imported when it is first used, so that importing the
package costs next to nothing.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
