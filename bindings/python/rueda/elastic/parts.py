"""Refuses to send a state between ranks whose models differ, before anything of it is on its way.

    all ranks  --digest of (key, kind) of every part-->  all ranks      one small all-gather
    all ranks  --the parts themselves-->                 all ranks      only if two digests differ

Each tensor is an operation of its own. One that a rank lacks would never begin on it, and the others would wait. So the ranks
compare their lists first. All of them find the same first difference, and raise the same sentence.
"""

import hashlib
import itertools
from typing import Any, Dict, List, NamedTuple, Sequence

from rueda import session
from rueda._native import lib
from rueda.errors import MismatchError, name_ranks
from rueda.objects import allgather_object

# A program may have operations of its own of any other name.
_DIGESTS, _PARTS = "rueda.elastic.digests", "rueda.elastic.parts"
_MOST_KINDS = 3  # that a sentence tells apart


class Part(NamedTuple):
    """Something that all ranks send or receive together. key: what the ranks find it by, a text or its number in the list. name:
    what errors call it. kind: what must be equal on all ranks, in words."""

    key: Any
    name: str
    kind: str


def kind_of(dtype: Any, shape: Any) -> str:
    """The kind of a tensor or array. shape: None if it has none yet."""
    return f"a {str(dtype).rpartition('.')[2]} of {'no shape yet' if shape is None else f'shape {list(shape)}'}"


def _digest(entries: List[Any]) -> bytes:
    return hashlib.blake2b(repr(sorted(entries, key=lambda entry: str(entry[0]))).encode(), digest_size=16).digest()


def require_alike(parts: Sequence[Part]) -> bool:
    """Blocks; every rank calls it. Raises MismatchError, with the same sentence on all ranks, unless they have parts of the same
    keys and kinds. Returns whether the names are equal, too, on all ranks."""
    here = session.current_or_none()
    if here is None or here.size == 1:
        return True
    mine = _digest([(part.key, part.kind) for part in parts]), _digest([(part.key, part.name) for part in parts])
    digests = allgather_object(mine, _DIGESTS)
    if any(kinds != digests[0][0] for kinds, _ in digests):
        everyone = allgather_object([tuple(part) for part in parts], _PARTS)
        raise MismatchError(difference([[Part(*part) for part in each] for each in everyone]), lib.RUEDA_MISMATCH)
    return all(names == digests[0][1] for _, names in digests)


def difference(everyone: Sequence[Sequence[Part]]) -> str:
    """The sentence for the first part that not all ranks have alike, in the order of the lowest rank that has it. everyone: the
    parts of each rank."""
    tables: List[Dict[Any, Part]] = [{part.key: part for part in parts} for parts in everyone]
    firsts: Dict[Any, Part] = {}
    for part in itertools.chain(*everyone):
        firsts.setdefault(part.key, part)
    for key, first in firsts.items():
        ranks_of: Dict[str, List[int]] = {}
        lacking = []
        for rank, table in enumerate(tables):
            (ranks_of.setdefault(table[key].kind, []) if key in table else lacking).append(rank)
        if lacking or len(ranks_of) > 1:
            return f"sync() of a state: {_told(first.name, ranks_of, lacking)}; build the same models and optimizers on all ranks"
    raise AssertionError("the digests differ, and the parts do not")


def _told(name: str, ranks_of: Dict[str, List[int]], lacking: List[int]) -> str:
    kinds = [f"{kind} on {name_ranks(ranks)}" for kind, ranks in ranks_of.items()]
    more = [f"{len(kinds) - _MOST_KINDS} other kinds on other ranks"] if len(kinds) > _MOST_KINDS else []
    told = f"{name!r} is {' and '.join(kinds[:_MOST_KINDS] + more)}"
    return f"{told}, and {name_ranks(lacking)} {'does' if len(lacking) == 1 else 'do'} not have it" if lacking else told
