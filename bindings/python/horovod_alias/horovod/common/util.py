"""Horovod's small helpers that scripts use."""


def check_extension(*_):
    """Whether the extension is there: Rueda has one for all frameworks, and is imported by now."""


def num_rank_is_power_2(num_rank):
    """Whether the number is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items, parts):
    """The items in `parts` lists, whose lengths differ by one at most."""
    whole, more = divmod(len(items), parts)
    return [items[i * whole + min(i, more) : (i + 1) * whole + min(i + 1, more)] for i in range(parts)]


def is_iterable(value):
    """Whether the value can be iterated over."""
    try:
        iter(value)
    except TypeError:
        return False
    return True
