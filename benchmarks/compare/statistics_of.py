"""Medians, spreads and ratios of what turns have measured.

A sample is one value of one turn: {"round", "value", "quiet", "distance"}. Samples of a machine that was not quiet do not
count if there are others. A ratio is the median over the rounds of peer / Rueda in the same round, if both turns met the same
distance of the cores.
"""

import statistics

FAR_NS = 200


def distance(before_ns, after_ns):
    """Near, far, or changed: of the round trip of a cache line before and after a turn. 0: it could not be measured.

    In the results under docs/results cores are 20 to 100 ns apart, or 220 to 460.
    """
    if min(before_ns, after_ns) <= 0:
        return "unknown"
    if max(before_ns, after_ns) < FAR_NS:
        return "near"
    return "far" if min(before_ns, after_ns) >= FAR_NS else "changed"


def usable(samples):
    """The samples that count, and whether they are of a quiet machine."""
    quiet = [sample for sample in samples if sample["quiet"]]
    return (quiet, True) if quiet else (samples, False)


def summary(samples):
    """None without samples."""
    if not samples:
        return None
    counted, quiet = usable(samples)
    values = [sample["value"] for sample in counted]
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "samples": len(values), "quiet": quiet}


def ratio(ours, theirs):
    """How many times as long the peer takes; None if no round has both at one distance."""
    mine = {sample["round"]: sample for sample in usable(ours)[0]}
    found = []
    for sample in usable(theirs)[0]:
        other = mine.get(sample["round"])
        if other and other["value"] > 0 and other["distance"] == sample["distance"] != "changed":
            found.append(sample["value"] / other["value"])
    return statistics.median(found) if found else None
