"""Horovod's place of init(), rank() and the like."""

from rueda import build, process_sets, session


class HorovodBasics:
    """The functions about the job as methods. The arguments, a library's path, are accepted and without meaning."""

    def __init__(self, *_):
        self.Average, self.Sum, self.Adasum, self.Min, self.Max, self.Product = range(6)

    def __getattr__(self, name):
        for place in (session, process_sets, build):
            if not name.startswith("_") and hasattr(place, name):
                return getattr(place, name)
        raise AttributeError(f"HorovodBasics has no {name!r}")
