"""The ops, each one paragraph: the primitives of the engine. What lies in this folder is one."""

from importlib import import_module
from pkgutil import iter_modules

__all__ = [module.name for module in iter_modules(__path__)]

for _name in __all__:
    import_module(f"minidp.ops.{_name}")
