"""Ctrl-C while PyTorch waits for futures, and its effects on programs that handle signals themselves."""

import pathlib
import subprocess
import sys

import pytest
import torch
from test_torch_distributed import torchrun

PROGRAM = pathlib.Path(__file__).parent / "programs" / "interrupted.py"
pytestmark = pytest.mark.skipif(not hasattr(torch, "_is_device_backend_autoload_enabled"),
                                reason=f"PyTorch {torch.__version__} does not find backends of packages by itself")  # fmt: skip

ALONE = """
import os, queue, select, signal, threading
import torch.distributed as dist
from rueda.torch.distributed import interrupts

def begin():
    dist.init_process_group("rueda", store=dist.HashStore(), rank=0, world_size=1)

def descriptor():
    found = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(found)
    return found
"""


def run(text):
    done = subprocess.run([sys.executable, "-c", ALONE + text + "\nprint('ended')"], capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stdout + done.stderr


def interrupt_a_wait(kind, folder):
    """Rank 0 gets a SIGINT while it waits for rank 1, which then goes on."""
    command = [sys.executable, str(PROGRAM)]
    ranks = [subprocess.Popen([*command, str(rank), str(folder / "store"), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for rank in (0, 1)]  # fmt: skip
    try:
        interrupted = ranks[0].stdout.readline()  # while rank 1 is not let go on
        outputs = [ranks[number].communicate(timeout=240) for number in (1, 0)]
    finally:
        for rank in ranks:
            rank.kill()
    assert interrupted.startswith("interrupted"), outputs
    if kind in ("ddp", "hook"):  # here the signal cannot come before PyTorch waits
        assert interrupted == "interrupted in C++\n"
    assert [output for output, _ in outputs] == ["ended\n"] * 2, outputs


@pytest.mark.parametrize("kind", ["wait", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("ddp", "hook", "then"))])
def test_an_interrupt_ends_a_wait_for_a_rank_that_does_not_come_and_the_operation_goes_on(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("RUEDA_TIMEOUT_SECONDS", "200")
    interrupt_a_wait(kind, tmp_path)


def test_an_interrupt_after_an_enqueue_leaves_its_memory_to_the_library():
    assert torchrun("interrupted_starts.py", ranks=2).count("ok") == 2


def test_a_programs_own_wakeup_descriptor_stays_and_ours_goes_with_the_last_group():
    run("""
begin()
ours = descriptor()
dist.destroy_process_group(dist.new_group([0]))
assert ours not in (-1, 0) and descriptor() == ours
dist.destroy_process_group()
assert descriptor() == -1

theirs = os.pipe()
os.set_blocking(theirs[1], False)
signal.set_wakeup_fd(theirs[1])
begin()
assert descriptor() == theirs[1]
dist.destroy_process_group()
assert signal.set_wakeup_fd(-1) == theirs[1]

begin()
assert signal.set_wakeup_fd(theirs[1]) == ours
dist.destroy_process_group()
assert signal.set_wakeup_fd(-1) == theirs[1]

thread = threading.Thread(target=begin)  # which cannot set it
thread.start()
thread.join()
assert descriptor() == -1
dist.destroy_process_group()
""")


def test_what_a_forked_process_is_told_its_parent_is_not():
    run("""
interrupts._Watch._run = lambda *_: None  # no thread reads the pipe
signal.signal(signal.SIGUSR1, lambda *_: None)
begin()
read = interrupts.watch._pipe[0]
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGUSR1)
    os._exit(int(descriptor() != -1))
assert os.waitpid(child, 0)[1] == 0
assert select.select([read], [], [], 0)[0] == []
os.kill(os.getpid(), signal.SIGUSR1)
assert select.select([read], [], [], 0)[0] == [read]
dist.destroy_process_group()
""")


def test_a_program_that_handles_interrupts_itself_is_left_alone():
    run("""
looked, freed = queue.SimpleQueue(), queue.SimpleQueue()
getsignal = signal.getsignal

def told(number):
    looked.put(number)
    return getsignal(number)

signal.getsignal = told
interrupts._Watch._free = staticmethod(lambda main: freed.put("main thread"))
signal.signal(signal.SIGINT, lambda *_: None)
begin()
os.kill(os.getpid(), signal.SIGINT)
looked.get(timeout=120)
os.kill(os.getpid(), signal.SIGINT)
looked.get(timeout=120)  # it is through with the first
assert freed.empty()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(120)
except KeyboardInterrupt:
    assert freed.get(timeout=120) == "main thread"
dist.destroy_process_group()
""")


def test_a_main_thread_that_is_in_python_and_one_that_is_not_are_told_apart():
    run("""
import ctypes
main, hold = interrupts._MainThread(), os.pipe()
main.ask()
while not main.answered():  # by this thread, as it comes here
    pass

def look():
    main.ask()
    while main.answered() or main.answered():
        main.ask()
    os.write(hold[1], b"x")

thread = threading.Thread(target=look)
thread.start()
byte = ctypes.create_string_buffer(1)
assert ctypes.CDLL(None).read(hold[0], byte, 1) == 1  # in C, until the other has found it there
thread.join()
while not main.answered():  # what was asked then
    pass
""")
