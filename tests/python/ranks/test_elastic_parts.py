"""States whose models differ between ranks: all ranks are told the first part that does, and nothing of a state is sent."""

import numpy
import pytest
import torch
from torch.nn import Linear, Sequential

import rueda.torch as hvd
from rueda.elastic import parts
from rueda.elastic.variables import VariablesState
from rueda.torch.elastic import ElasticSampler, TorchState

BUILD = "; build the same models and optimizers on all ranks"


def odd():
    """Whether this is the last rank, whose state is another one."""
    return hvd.rank() == hvd.size() - 1


def here(sentence):
    """The sentence for the ranks of this job."""
    last = hvd.size() - 1
    others = "rank 0" if last == 1 else "ranks " + ", ".join(map(str, range(last)))
    if last == 1:
        sentence = sentence.replace("OTHERS do", "OTHERS does")
    return "sync() of a state: " + sentence.replace("OTHERS", others).replace("LAST", f"rank {last}") + BUILD


def of_model(ours, theirs):
    torch.manual_seed(hvd.rank())
    return TorchState(model=theirs() if odd() else ours(), step=hvd.rank())


def of_optimizer(groups):
    layers = [Linear(1, 1), Linear(2, 1)]
    optimizer = torch.optim.SGD(layers[0].parameters(), lr=0.1)
    for layer in layers[1:groups]:
        optimizer.add_param_group({"params": layer.parameters()})
    return TorchState(optimizer=optimizer, step=hvd.rank())


class Arrays(VariablesState):
    """Variables of no framework. Each has a name."""

    def __init__(self, names, *arrays, **kwargs):
        self.names, self.arrays = names, arrays
        super().__init__(**kwargs)

    def _variable_names(self):
        return self.names

    def read(self):
        return list(self.arrays)

    def write(self, values):
        self.arrays = values


def of_arrays(ours, theirs):
    mine = theirs if odd() else ours
    return Arrays(list(mine), *(numpy.full(shape, hvd.rank(), dtype) for shape, dtype in mine.values()), step=hvd.rank())


F4, F8 = numpy.float32, numpy.float64
CASES = {
    "shape": (lambda: of_model(lambda: Sequential(Linear(2, 3), Linear(3, 1)), lambda: Sequential(Linear(2, 3), Linear(3, 2))),
              "'model.1.weight' is a float32 of shape [1, 3] on OTHERS and a float32 of shape [2, 3] on LAST"),
    "one layer more": (lambda: of_model(lambda: Sequential(Linear(2, 3)), lambda: Sequential(Linear(2, 3), Linear(3, 2))),
                       "'model.1.weight' is a float32 of shape [2, 3] on LAST, and OTHERS do not have it"),
    "one layer less": (lambda: of_model(lambda: Sequential(Linear(2, 3), Linear(3, 2)), lambda: Sequential(Linear(2, 3))),
                       "'model.1.weight' is a float32 of shape [2, 3] on OTHERS, and LAST does not have it"),
    "type": (lambda: of_model(lambda: Linear(2, 3), lambda: Linear(2, 3).double()),
             "'model.weight' is a float32 of shape [3, 2] on OTHERS and a float64 of shape [3, 2] on LAST"),
    "lazy": (lambda: of_model(lambda: Linear(2, 3), lambda: torch.nn.LazyLinear(3)),
             "'model.weight' is a float32 of shape [3, 2] on OTHERS and a float32 of no shape yet on LAST"),
    "one group more": (lambda: of_optimizer(2 if odd() else 1),
                       "'optimizer.param_groups[1].params[0]' is a float32 of shape [1, 2] on LAST, and OTHERS do not have it"),
    "one group less": (lambda: of_optimizer(1 if odd() else 2),
                       "'optimizer.param_groups[1].params[0]' is a float32 of shape [1, 2] on OTHERS, and LAST does not have it"),
    "no sampler": (lambda: TorchState(step=hvd.rank(), **({} if odd() else {"sampler": ElasticSampler(range(4))})),
                   "'sampler' is handled by SamplerStateHandler on OTHERS, and LAST does not have it"),
    "variable's shape": (lambda: of_arrays({"a": (2, F4), "b": ((2, 3), F4)}, {"a": (2, F4), "b": (6, F4)}),
                         "'b' is a float32 of shape [2, 3] on OTHERS and a float32 of shape [6] on LAST"),
    "one variable more": (lambda: of_arrays({"a": (2, F4)}, {"a": (2, F4), "b": (6, F4)}), "'b' is a float32 of shape [6] on LAST, and OTHERS do not have it"),
    "one variable less": (lambda: of_arrays({"a": (2, F4), "b": (6, F4)}, {"a": (2, F4)}), "'b' is a float32 of shape [6] on OTHERS, and LAST does not have it"),
    "variable's type": (lambda: of_arrays({"a": (2, F4)}, {"a": (2, F8)}), "'a' is a float32 of shape [2] on OTHERS and a float64 of shape [2] on LAST"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_all_ranks_are_told_the_first_part_that_differs_and_nothing_is_sent(name):
    make, sentence = CASES[name]
    state = make()
    with pytest.raises(hvd.MismatchError) as caught:
        state.sync()
    assert str(caught.value) == here(sentence) and state.step == hvd.rank()
    hvd.barrier()


def test_variables_are_the_same_whatever_each_process_calls_them(monkeypatch):
    """Keras numbers the models of a process, and one rank may have made another one before."""
    state = of_arrays({"dense/kernel": (2, F4)}, {"dense_1/kernel": (2, F4)})
    sent = []
    broadcast = hvd.broadcast_async
    monkeypatch.setattr("rueda.elastic.variables.arrays.broadcast_async", lambda value, root, name: sent.append(name) or broadcast(torch.tensor(value), root, name))
    state.write = lambda values: None
    state.sync()
    state.names = ["dense/kernel"]
    state.sync()
    assert [name.rpartition("elastic_variables.")[2].partition(".")[2] for name in sent] == ["0", "0.dense/kernel"], sent


def test_a_difference_between_many_kinds_tells_three():
    ranks = [[parts.Part("a", "a", parts.kind_of("float32", [min(rank, 5)]))] for rank in range(30)]
    told = parts.difference(ranks)
    assert told.startswith("sync() of a state: 'a' is a float32 of shape [0] on rank 0 and a float32 of shape [1] on rank 1 and a float32 of shape [2] on rank 2 "
                           "and 3 other kinds on other ranks; build"), told  # fmt: skip


def test_the_lists_themselves_are_sent_only_if_they_differ(monkeypatch):
    sent = []
    gather = parts.allgather_object
    monkeypatch.setattr(parts, "allgather_object", lambda value, name: sent.append(name) or gather(value, name))
    of_model(lambda: Linear(2, 3), lambda: Linear(2, 3)).sync()
    assert sent == ["rueda.elastic.digests"]
    with pytest.raises(hvd.MismatchError):
        of_model(lambda: Linear(2, 3), lambda: Linear(2, 4)).sync()
    assert sent == ["rueda.elastic.digests"] * 2 + ["rueda.elastic.parts"]
