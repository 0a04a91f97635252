from .registry import algorithms as algorithms
from .registry import load as load
from .registry import register as register
from .registry import unregister as unregister
from .registry import wrappers as wrappers
