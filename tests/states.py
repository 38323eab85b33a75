"""What a model file would hold of an object, without a file."""

from bregmat.io.state import from_state, to_state


def state_of(obj):
    """Plain values, and arrays by name that later learning does not change."""
    state, arrays = to_state(obj)
    return state, {name: array.copy() for name, array in arrays.items()}


def restored(cls, state, arrays):
    """An object with its own arrays, as ``load`` gives it."""
    return from_state(cls, state, {name: array.copy() for name, array in arrays.items()})


def saved_and_loaded(obj):
    """The object as it comes back from a file."""
    return restored(type(obj), *state_of(obj))
