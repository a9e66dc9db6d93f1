"""The command line. What is wrong ends the program with a sentence and code 2."""

import argparse
import pathlib

import works


def numbers(text):
    """"1,2,4": ascending numbers of ranks from 1 to 64."""
    try:
        found = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers of ranks; write --np 1,2,4") from None
    if not 1 <= found[0] <= found[-1] <= 64:
        raise argparse.ArgumentTypeError(f"'{text}' has a number of ranks that is not from 1 to 64")
    return found


def some_of(kind, known):
    """A list of words; each must be known."""

    def parse(text):
        found = text.split(",")
        for each in found:
            if each not in known:
                raise argparse.ArgumentTypeError(f"'{each}' is not a {kind}; choose from {', '.join(known)}")
        return found

    return parse


def between(least, most, kind):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {least} to {most}")
        return value

    return parse


def parse(about, peers, arguments=None):
    parser = argparse.ArgumentParser(prog="compare", description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="build/compare/results", type=pathlib.Path, help="of the results (build/compare/results)")
    parser.add_argument("--quick", action="store_true", help="two or three minutes: np 2, few sizes, one round, no training")
    parser.add_argument("--only", type=some_of("group", works.GROUPS), help=f"groups, of {','.join(works.GROUPS)}")
    parser.add_argument("--np", type=numbers, help="numbers of ranks (1,2,4,8)")
    parser.add_argument("--peers", type=some_of("peer", peers), default=peers, help=f"of {','.join(peers)}; without them all that are there")
    parser.add_argument("--rounds", type=between(1, 1000, int), help="turns of each peer (3)")
    parser.add_argument("--minutes", type=between(0.1, 10000, float), help="as many rounds as fit, at least one, instead of --rounds")
    parser.add_argument("--seconds", type=between(0.001, 60, float), help="of a work in a turn (0.2)")
    parser.add_argument("--limit", type=between(1, 3600, float), default=240, help="seconds after which a turn is ended (240)")
    parser.add_argument("--busy", action="store_true", help="measure although other programs use the machine; rows are marked")
    parser.add_argument("--choices", action="store_true", help="Rueda's own choice beside each fixed one; groups middle and large, np 2 and 4, 1 s")
    parser.add_argument("--install", action="store_true", help="first bring oneCCL's wheel, and try to build Horovod once")
    options = parser.parse_args(arguments)
    if options.rounds and options.minutes:
        parser.error("--rounds and --minutes do not go together")
    if options.choices and options.peers != peers:
        parser.error("--choices has peers of its own; leave out --peers")
    options.np = options.np or ([2] if options.quick else [2, 4] if options.choices else [1, 2, 4, 8])
    options.seconds = options.seconds or (0.05 if options.quick else 1 if options.choices else 0.2)
    options.only = options.only or (["middle", "large"] if options.choices else None)
    options.rounds = options.rounds or (None if options.minutes else 1 if options.quick else 3)
    options.only = options.only or [group for group in works.GROUPS if not (options.quick and group == "training")]
    return options
