"""The launcher under the module name of Horovod: `python -m horovod.runner.launch -np 4 ...` is horovodrun, and that is
hvdrun with Horovod's defaults for elastic jobs."""

import argparse
import collections
import subprocess
import sys
import threading

from horovod.runner.elastic import driver
from rueda.programs import become, path_of

_LAST_LINES = 50
_FAILED = "Horovod detected that one or more processes exited with non-zero status"


def run_commandline():
    """The command horovodrun. In an elastic job one failure is enough to blacklist a host, and the others are interrupted for
    a new worker as soon as it is started, unless flags say otherwise, and a job that fails says so in Horovod's words. Every
    other job is as hvdrun starts it."""
    become("hvdrun", "--horovod-defaults")


def _number(text):
    value = float(text)
    return int(value) if value.is_integer() else value


def parse_args():
    """The flags of an elastic job from sys.argv, as a namespace. Exits with a message for flags that it does not know."""
    parser = argparse.ArgumentParser("horovodrun", allow_abbrev=False)
    parser.add_argument("-np", "--num-proc", type=int)
    parser.add_argument("--min-np", "--min-num-proc", dest="min_num_proc", type=int)
    parser.add_argument("--max-np", "--max-num-proc", dest="max_num_proc", type=int)
    parser.add_argument("--slots-per-host", "--slots", dest="slots", type=int)
    parser.add_argument("--elastic-timeout", type=_number)
    parser.add_argument("--reset-limit", type=int)
    parser.add_argument("--blacklist-cooldown-range", dest="cooldown_range", type=int, nargs=2)
    parser.add_argument("-H", "--hosts")
    parser.add_argument("--host-discovery-script")
    parser.add_argument("--log-level")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _words_of(args):
    least = args.num_proc if args.min_num_proc is None else args.min_num_proc
    wait = driver.ELASTIC_TIMEOUT_SECS if args.elastic_timeout is None else args.elastic_timeout
    interval = None if args.host_discovery_script is None else driver.DISCOVER_HOSTS_FREQUENCY_SECS
    values = {"-np": args.num_proc, "--min-np": least, "--max-np": args.max_num_proc, "--slots-per-host": args.slots, "--elastic-timeout": wait,
              "--reset-limit": args.reset_limit, "-H": args.hosts, "--host-discovery-script": args.host_discovery_script,
              "--discovery-interval": interval, "--log-level": args.log_level,
              "--blacklist-after": 1, "--admit": "discovered"}  # as in Horovod; fmt: skip
    words = [word for flag, value in values.items() if value is not None for word in (flag, str(value))]
    if getattr(args, "verbose", False):
        words.append("--verbose")
    if args.cooldown_range is not None:
        words += ["--blacklist-cooldown-range", *map(str, args.cooldown_range)]
    return words


def _run_elastic(args):
    """Runs an elastic job with hvdrun to its end. args: as parse_args() returns them.

    Raises RuntimeError, with the last lines of hvdrun's standard error, if the job failed.
    """
    command = [path_of("hvdrun"), *_words_of(args), *args.command]
    last = collections.deque(maxlen=_LAST_LINES)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as job:
        reader = threading.Thread(target=_pass_on, args=(job.stderr, last))
        reader.start()
        try:
            job.wait()
        except BaseException:
            job.terminate()
            raise
        finally:
            reader.join()
    if job.returncode != 0:
        raise RuntimeError(f"{_FAILED}; hvdrun ended with code {job.returncode}:\n{''.join(last)}")


def _pass_on(lines, last):
    for line in lines:
        last.append(line)
        sys.stderr.write(line)


if __name__ == "__main__":
    run_commandline()
