"""Brings the device "standin" into the process that imports it: one whose memory no address of the host reaches, and whose
streams work later. It is written in stand_in_device.cc. With RUEDA_CUDA_LIBRARY, the stand-in for libcuda, memory and
streams are that library's, and Rueda's CUDA plug-in uses the tensors where they lie. TEST_DEVICE=cuda: nothing is
brought, and programs that use NAME run on GPUs."""

import contextlib
import ctypes
import functools
import os
import pathlib

import torch

NAME = os.environ.get("TEST_DEVICE", "standin")
IS_REACHED = NAME == "cuda" or "RUEDA_CUDA_LIBRARY" in os.environ


class _Device:
    """What torch.cuda is for GPUs."""

    Event = functools.partial(torch.Event, NAME)
    is_available = is_initialized = staticmethod(lambda: True)
    is_bf16_supported = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 4)  # as in stand_in_device.cc
    current_device = staticmethod(torch.accelerator.current_device_index)
    set_device = staticmethod(torch.accelerator.set_device_index)
    synchronize = staticmethod(torch.accelerator.synchronize)
    current_stream = staticmethod(torch.accelerator.current_stream)
    set_stream = staticmethod(torch.accelerator.set_stream)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16, torch.bfloat16])
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)  # its random numbers are the host's
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, device=None: torch.set_rng_state(state))

    @staticmethod
    def device(wanted):
        return torch.accelerator.device_index(torch.device(wanted).index)

    @staticmethod
    def Stream(device=None, priority=0):  # noqa: N802
        return torch.Stream(device=NAME if device is None else device, priority=priority)

    @staticmethod
    @contextlib.contextmanager
    def stream(stream):
        before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(before if stream is None else stream)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)


def build(folder):
    """Compiles the device once for all processes that name this folder in STAND_IN_DEVICE."""
    from torch.utils import cpp_extension

    source = pathlib.Path(__file__).with_suffix(".cc")
    cpp_extension.load(NAME, [str(source)], ["-w", "-O1"], build_directory=str(folder), is_python_module=False)
    return pathlib.Path(folder, f"{NAME}.so")


def _reach():
    """Tells Rueda that its CUDA plug-in reaches the device, as it does NVIDIA's."""
    from rueda._native import lib
    from rueda.torch import placed

    handle_of = ctypes.CDLL(os.environ["STAND_IN_DEVICE"]).stand_in_stream
    handle_of.argtypes, handle_of.restype = (ctypes.c_int, ctypes.c_int64), ctypes.c_void_p
    placed.reach(NAME, placed.Kind(lib.RUEDA_DEVICE_CUDA, _Device, lambda stream: handle_of(stream.device_index, stream.stream_id)))


def _bring():
    torch.ops.load_library(os.environ["STAND_IN_DEVICE"])
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _Device)
    torch.utils.generate_methods_for_privateuse1_backend(for_module=True, for_storage=True)
    if IS_REACHED:
        _reach()


def choose(rank):
    """Has the process use the device for this rank."""
    torch.accelerator.set_device_index(rank % torch.accelerator.device_count())


if "STAND_IN_DEVICE" in os.environ:
    _bring()
