"""The positional arguments of a binding's own functions, for tests that hold their order."""

import inspect

from rueda import shared

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def orders(binding):
    """By name, the positional arguments of the functions and classes that the binding does not share with all others."""
    own = {name: getattr(binding, name) for name in set(binding.__all__) - set(shared.__all__)}
    return {name: _positional(each) for name, each in own.items() if callable(each)}


def _positional(function):
    return " ".join(key for key, each in inspect.signature(function).parameters.items() if each.kind in _POSITIONAL)
