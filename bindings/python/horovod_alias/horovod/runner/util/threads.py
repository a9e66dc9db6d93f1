"""Threads under the module name of Horovod."""

import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Starts a thread that calls target(*args), and returns it. silent: an exception in it is not printed. Raises
    ValueError if `args` is not a tuple."""
    if not isinstance(args, tuple):
        raise ValueError(f"args={args!r:.60}: give a tuple of arguments")

    def quiet(*given):
        try:
            target(*given)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=quiet, args=args, name=name, daemon=daemon)
    thread.start()
    return thread
