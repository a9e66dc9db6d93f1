"""init(), rank() and other functions about the job, under the module name of Horovod."""

from rueda import build, process_sets, session


class HorovodBasics:
    """The functions about the job, as methods. The arguments, the path of a library, are ignored."""

    def __init__(self, *_):
        self.Average, self.Sum, self.Adasum, self.Min, self.Max, self.Product = range(6)

    def __getattr__(self, name):
        for module in (session, process_sets, build):
            if not name.startswith("_") and hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"HorovodBasics has no {name!r}")
