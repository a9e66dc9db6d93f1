"""Divides a data set between the ranks, also when their number changes within an epoch."""

from typing import Any, Dict, Iterator, List, Set

import torch
from torch.utils.data import Sampler

from rueda.session import rank, size


class ElasticSampler(Sampler):
    """The indices of a data set that this rank is to read, for the `sampler` of a DataLoader.

    All ranks shuffle alike and take turns. The sampler counts what all ranks have read; when the number of ranks changes,
    what is left of the epoch is divided anew, so that no sample is read twice (but for the padding at the end of an
    epoch, which gives all ranks equally many). Keep it in a TorchState, call record_batch() after each batch, and
    set_epoch() at the end of each epoch.

    dataset: anything with a length. shuffle: in a new order each epoch. seed: of that order, equal on all ranks. Raises
    ValueError before init().
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # of all ranks together
        self.reset()

    def reset(self) -> None:
        """Divides what is left of the epoch between the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        self._order = self._permutation()
        self.remaining_indices = self._order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def _permutation(self) -> List[int]:
        count = len(self.dataset)
        if not self.shuffle:
            return list(range(count))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(count, generator=generator).tolist()

    @property
    def processed_indices(self) -> Set[int]:
        """The indices that ranks have read in this epoch."""
        return set(self._order[: self.processed_num])

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, with nothing read. Call it at the end of the epoch before: then a restart within the epoch finds
        the right one."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Counts a batch that every rank has read. batch_idx: ignored. batch_size: of this rank, the same on all."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """The epoch, and how many of its samples are read."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, int]) -> None:
        """Goes on from a state_dict(), and divides what is left of its epoch."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        """This rank's indices. If the ranks do not divide what is left, indices from its beginning come again at its end."""
        indices = self.remaining_indices
        return (indices[position % len(indices)] for position in range(self.rank, self.total_size, self.num_replicas))

    def __len__(self) -> int:
        return self.num_samples
