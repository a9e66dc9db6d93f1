"""run() under the module name of Horovod. Its elastic jobs have Horovod's defaults, as those of horovodrun."""

import functools

from rueda import launch, run_elastic


@functools.wraps(launch.run)
def run(*args, **kwargs):
    """As rueda.run(). In an elastic job one failure is enough to blacklist a host, and the others are interrupted for a
    new worker as soon as it is started."""
    given = run_elastic.more_flags.set(("--blacklist-after", "1", "--admit", "discovered"))
    try:
        return launch.run(*args, **kwargs)
    finally:
        run_elastic.more_flags.reset(given)
