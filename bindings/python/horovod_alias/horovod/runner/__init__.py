"""run() under the module name of Horovod. Its elastic jobs have Horovod's defaults, as those of horovodrun."""

import functools

from rueda.launch import run as _run
from rueda.run_elastic import more_flags as _more_flags


@functools.wraps(_run)
def run(*args, **kwargs):
    """As rueda.run(). In an elastic job one failure is enough to blacklist a host, and the others are interrupted for a
    new worker as soon as it is started. If the job fails, the lines of hvdrun in the RuntimeError have Horovod's text."""
    given = _more_flags.set(("--horovod-defaults",))
    try:
        return _run(*args, **kwargs)
    finally:
        _more_flags.reset(given)
