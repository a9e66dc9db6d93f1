"""Copies of a state lie in the memory of the copy before, and are right whatever the program does with its tensors."""

import copy
import random
import threading

import pytest
import torch

from rueda.torch.elastic import TorchState, copies
from rueda.torch.elastic.copies import Kept, spread_over


def saved(*values):
    kept = Kept()
    for value in values:
        kept.save(value)
    return kept


def addresses(value):
    return {name: tensor.data_ptr() for name, tensor in value.items() if isinstance(tensor, torch.Tensor)}


def trained(optimizer, model):
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def test_commits_of_a_model_and_its_optimizer_stay_in_one_place():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())
    state = TorchState(model=model, optimizer=optimizer)
    trained(optimizer, model)
    state.save()
    places = [addresses(state._handlers["model"]._saved), *map(addresses, state._handlers["optimizer"]._saved["state"].values())]
    trained(optimizer, model)
    expected = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    state.save()
    assert places == [addresses(state._handlers["model"]._saved), *map(addresses, state._handlers["optimizer"]._saved["state"].values())]
    trained(optimizer, model)
    live = [*map(addresses, optimizer.state_dict()["state"].values())]
    state.restore()
    assert live == [*map(addresses, optimizer.state_dict()["state"].values())]
    for now, then in zip([model.state_dict(), *optimizer.state_dict()["state"].values()], [expected[0], *expected[1]["state"].values()]):
        assert now.keys() == then.keys() and all(torch.equal(now[name], then[name]) for name in now)
    trained(optimizer, model)  # restored tensors are the optimizer's own
    assert all(torch.equal(state._handlers["model"]._saved[name], tensor) for name, tensor in expected[0].items())


def test_a_tensor_of_another_kind_gets_memory_of_its_own():
    before = torch.arange(6.0)
    for after in (torch.arange(7.0), torch.arange(6), torch.arange(6.0).reshape(2, 3), torch.arange(12.0)[::2], torch.arange(7.0)[1:],
                  torch.ones(1).expand(6), torch.arange(6.0).to_sparse(), torch.nn.Parameter(torch.arange(6.0)), "words", None):  # fmt: skip
        kept = saved({"it": before, "other": before.clone()}, {"it": after})
        made = kept.copy["it"]
        assert kept.copy.keys() == {"it"} and type(made) is type(after)
        assert torch.equal(made.to_dense(), after.to_dense()) if isinstance(after, torch.Tensor) else made == after


def test_one_element_that_is_seen_many_times_is_copied():
    kept = saved(*({"a": torch.full((1,), float(number)).expand(6)} for number in range(3)))
    assert kept.copy["a"].tolist() == [2] * 6


def test_tensors_that_no_longer_share_memory_do_not_overwrite_each_other():
    tied = torch.ones(3)
    kept = saved({"a": tied, "b": tied.detach()}, {"a": tied + 1, "b": tied + 2})
    assert kept.copy["a"].tolist() == [2, 2, 2] and kept.copy["b"].tolist() == [3, 3, 3]
    kept.save({"a": tied, "b": tied.detach()})
    assert kept.copy["a"].tolist() == kept.copy["b"].tolist() == [1, 1, 1]


def test_a_value_that_took_the_copy_itself_is_copied_out_of_it():
    kept = saved({"a": torch.ones(3)})
    value = kept.copy["a"]  # as a module may do with what its load_state_dict() is given
    kept.save({"a": value})
    value.fill_(7)
    assert kept.copy["a"].tolist() == [1, 1, 1]


def test_a_copy_that_the_value_has_taken_elsewhere_is_left_alone():
    kept = saved({"a": torch.ones(3)})
    taken = kept.copy["a"]
    kept.save({"a": torch.zeros(3), "b": taken})
    assert taken.tolist() == [1, 1, 1] and kept.copy["a"].tolist() == [0, 0, 0] and kept.copy["b"].tolist() == [1, 1, 1]


def test_containers_that_contain_themselves_are_copied():
    loop = {"a": torch.ones(3)}
    loop["self"] = loop
    kept = saved(loop, loop)
    assert kept.copy["self"] is kept.copy and kept.copy is not loop


@pytest.mark.skipif(not hasattr(torch, "uint4"), reason="this PyTorch has no type of half a byte")
def test_a_type_whose_elements_cannot_be_copied_gets_memory_of_its_own():
    value = {"a": torch.ones(3), "b": torch.empty(4, dtype=torch.uint8).view(torch.uint4)}
    saved(value, value, value)


def test_what_a_model_keeps_of_a_commit_does_not_change_it():
    class Counting(torch.nn.Linear):
        def __init__(self):
            super().__init__(1, 1)
            self.state = {"count": 5}

        def get_extra_state(self):
            return self.state

        def set_extra_state(self, state):
            self.state = state

    def doubled(state_dict, *_):
        state_dict["weight"].mul_(2)

    for hook in (None, doubled):
        model = Counting()
        torch.nn.init.ones_(model.weight)
        if hook is not None:
            model._register_load_state_dict_pre_hook(hook)
        state = TorchState(model=model)
        for _ in range(3):
            model.state["count"] += 1
            state.restore()
            assert model.state["count"] == 5 and model.weight.item() == (1 if hook is None else 2)


def test_an_assignment_that_fails_leaves_the_state_as_it_was():
    state = TorchState(model=torch.nn.Linear(1, 1))
    before = state.model
    with pytest.raises(AttributeError):
        state.model = None
    state.save()
    state.restore()
    assert state.model is before


def test_what_cannot_be_copied_leaves_the_copy_before_whole():
    class Stubborn:
        def __deepcopy__(self, memo):
            raise TypeError("stubborn")

    kept = saved({"a": torch.ones(3), "b": 1})
    with pytest.raises(TypeError, match="stubborn"):
        kept.save({"a": torch.zeros(3), "b": Stubborn()})
    assert kept.copy["a"].tolist() == [1, 1, 1] and kept.copy["b"] == 1


def test_a_copy_that_was_interrupted_is_refused(monkeypatch):
    kept = saved({"a": torch.ones(3), "b": torch.ones(3)})
    writes = []

    def interrupted(old, new):
        if writes:
            raise KeyboardInterrupt
        writes.append(new)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "copy_", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kept.save({"a": torch.zeros(3), "b": torch.zeros(3)})
    with pytest.raises(RuntimeError, match="has interrupted the latest save"):
        kept.copy  # noqa: B018
    kept.save({"a": torch.zeros(3), "b": torch.zeros(3)})
    assert kept.copy["b"].tolist() == [0, 0, 0]


def test_copies_of_random_values_are_equal_to_them_and_share_nothing_with_them():
    chance = random.Random(2026)
    pool = [torch.zeros(4, 4), torch.zeros(16), torch.zeros(16, dtype=torch.int64), torch.zeros(4, 4, dtype=torch.float16)]

    def tensor():
        whole = chance.choice(pool)  # of a few, so that values share memory
        seen = chance.choice([whole, whole[1:], whole[::2], whole.t() if whole.dim() == 2 else whole.flip(0), whole.clone(), whole[0]])
        return torch.nn.Parameter(seen) if chance.random() < 0.1 and seen.is_floating_point() else seen

    def value(depth):
        kind = chance.choice(["dict", "list", "tensor", "tensor", "plain"]) if depth else "dict"
        if kind == "dict":
            return {name: value(depth + 1) for name in chance.sample("abcdef", 4)} if depth < 3 else {}
        if kind == "list":
            return [value(depth + 1) for _ in range(chance.randrange(4))] if depth < 3 else []
        return tensor() if kind == "tensor" else chance.random()

    def seen(of):
        if isinstance(of, dict):
            return {name: seen(inner) for name, inner in of.items()}
        if isinstance(of, list):
            return [seen(inner) for inner in of]
        return (type(of), of.dtype, of.tolist()) if isinstance(of, torch.Tensor) else of

    kept, reused = Kept(), 0
    now = value(0)
    for _ in range(2000):
        if chance.random() < 0.4:
            now = value(0)
        for each in pool:
            each.fill_(chance.randrange(1000))
        expected = seen(now)
        before = {name: tensor.data_ptr() for name, tensor in kept._copy.items() if isinstance(tensor, torch.Tensor)} if kept._copy else {}
        kept.save(now)
        reused += any(before.get(name) == address for name, address in addresses(kept.copy).items())
        for each in pool:
            each.fill_(-1)
        assert seen(kept.copy) == expected
    assert reused > 500


def large():
    """A long tensor, one of an odd length, one whose elements lie in another order, a scalar, and one that requires a gradient."""
    return {"long": torch.rand(5 * copies._PIECE // 2), "odd": torch.rand(copies._LONG + 1)[1:], "turned": torch.rand(300, 200).t(),
            "scalar": torch.tensor(3), "parameter": torch.nn.Parameter(torch.rand(copies._LONG)), "short": torch.rand(3)}  # fmt: skip


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("much", [1, 1 << 60])
def test_every_element_is_copied_past_the_cache_or_through_it(monkeypatch, much):
    monkeypatch.setattr(copies, "_MUCH", much)
    monkeypatch.setattr(copies, "_LONG", 1)
    for length in (1, 2, 15, 16, 17, 31, 32, 33, 1000, 3000):
        value = {"it": torch.arange(length, dtype=torch.int32)}
        assert same(saved({"it": torch.zeros(length, dtype=torch.int32)}, value).copy, value)


def test_a_part_of_a_tensor_is_copied_and_nothing_beside_it(monkeypatch):
    monkeypatch.setattr(copies, "_MUCH", 1)
    monkeypatch.setattr(copies, "_LONG", 1)
    for first in range(0, 20):
        for length in (0, 1, 16, 17, 300):
            memory, value = torch.zeros(400, dtype=torch.int16), torch.randint(1, 99, (400,), dtype=torch.int16)
            copies._copy_past_cache(value[first : first + length], memory[first : first + length])
            expected = torch.zeros(400, dtype=torch.int16)
            expected[first : first + length] = value[first : first + length]
            assert torch.equal(memory, expected)


@pytest.fixture
def one_thread_of_pytorch():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def names_of_writers(monkeypatch):
    """The names of the functions that copy tensors from now on, once for each piece."""
    names = []
    for name in ("_copy", "_copy_past_cache"):
        write = getattr(copies, name)
        monkeypatch.setattr(copies, name, lambda new, old, name=name, write=write: (names.append(name), write(new, old)))
    return names


@pytest.mark.parametrize("much, used", [(1, {"_copy_past_cache"}), (1 << 60, {"_copy"})])
def test_a_save_goes_past_the_cache_if_it_is_large_and_a_restore_never_does(monkeypatch, much, used):
    monkeypatch.setattr(copies, "_MUCH", much)
    monkeypatch.setattr(copies, "_LONG", 1)
    value, names = {"it": torch.rand(300)}, names_of_writers(monkeypatch)
    kept = saved(value, value)
    assert {*names} == used
    names.clear()
    live = {"it": torch.zeros(300)}
    version = live["it"]._version
    copies.copied(kept.copy, live)
    assert same(live, value) and {*names} == {"_copy"} and live["it"]._version > version


@pytest.fixture
def writers(monkeypatch):
    """The threads that have copied a piece past the cache, which every copy of a long tensor is here."""
    seen, write = [], copies._copy_past_cache
    monkeypatch.setattr(copies, "_MUCH", 1)
    monkeypatch.setattr(copies, "_copy_past_cache", lambda new, old: (seen.append(threading.current_thread()), write(new, old)))
    return seen


def test_a_copy_that_is_spread_over_threads_is_whole_and_leaves_none(one_thread_of_pytorch, writers):
    kept = saved(large())
    places, after = addresses(kept.copy), large()
    with spread_over(3):
        kept.save(after)
    assert same(kept.copy, after) and addresses(kept.copy) == places
    names = {thread.name for thread in writers if thread is not threading.main_thread()}
    assert names and all(name.startswith("rueda-copy") for name in names)
    assert sum(thread.name.startswith("rueda-copy") for thread in writers) == 3 + 1 + 1 + 1  # "long" in pieces
    assert not any(thread.name.startswith("rueda-copy") for thread in threading.enumerate())
    before, after = len(writers), large()
    kept.save(after)
    assert same(kept.copy, after) and {*writers[before:]} == {threading.main_thread()}


def test_a_copy_is_not_spread_if_pytorch_does_that_itself(one_thread_of_pytorch, writers):
    torch.set_num_threads(2)
    kept, after = saved(large()), large()
    with spread_over(2):
        kept.save(after)
    assert same(kept.copy, after) and {*writers} == {threading.main_thread()}


def test_without_a_thread_to_be_had_a_copy_is_made_by_one(one_thread_of_pytorch, writers, monkeypatch):
    kept, after = saved(large()), large()

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with spread_over(2):
        kept.save(after)
    assert same(kept.copy, after) and {*writers} == {threading.main_thread()}


def test_a_copy_that_a_thread_cannot_write_fails_and_the_kept_one_is_known_as_torn(one_thread_of_pytorch, monkeypatch):
    kept = saved(large())

    def refuse(new, old):
        raise KeyError("of a device")

    monkeypatch.setattr(copies, "_copy_past_cache", refuse)
    with spread_over(2), pytest.raises(KeyError, match="of a device"):
        kept.save(large())
    assert not any(thread.name.startswith("rueda-copy") for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="interrupted the latest save"):
        kept.copy
