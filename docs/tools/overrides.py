"""Leave methods that only fill in what a base class documents out of the reference: there, they are shown once."""

from typing import Any

import griffe


class Overrides(griffe.Extension):
    """Drops members of a class that have a name of a base class's, unless they document parameters of their own."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look at all classes, once everything is loaded."""
        for kind in _classes(pkg):
            known = {name for base in kind.mro() for name, member in base.members.items() if member.has_docstring}
            for name in known & set(kind.members):
                text = kind.members[name].docstring
                if text is None or "Parameters\n---" not in text.value:
                    kind.del_member(name)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    found = [one for one in module.classes.values() if not one.is_alias]
    for inner in module.modules.values():
        if not inner.is_alias:
            found += _classes(inner)
    return found
