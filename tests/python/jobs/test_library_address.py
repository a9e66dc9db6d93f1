"""librueda lies at a multiple of 4 GiB, so that ranks that share a core share what its branch predictor knows."""

import os
import pathlib
import resource
import struct
import subprocess
import sys

import pytest
from conftest import HVDRUN

import rueda

LIBRARY = pathlib.Path(rueda.__file__).parent / "lib" / "librueda.so.1"
TOOL = pathlib.Path(rueda.__file__).parents[2] / "bin" / "align_library"  # of the build
FOUR_GIB = 1 << 32


def first_segment(library):
    """The place of the first segment's header in the file."""
    header = library.read_bytes()[:64]
    begin, = struct.unpack_from("<Q", header, 32)
    number, = struct.unpack_from("<H", header, 56)
    kinds = [struct.unpack_from("<I", library.read_bytes(), begin + 56 * i)[0] for i in range(number)]
    return begin + 56 * kinds.index(1)


def alignment_of(library):
    return struct.unpack_from("<Q", library.read_bytes(), first_segment(library) + 48)[0]


def is_honoured():
    """Whether this is a build that asks for the alignment, as each does that has the tool, and a glibc that heeds it: 2.35 or newer."""
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    asked = TOOL.exists() or alignment_of(LIBRARY) == FOUR_GIB
    return asked and name == "glibc" and tuple(map(int, version.split("."))) >= (2, 35)


needs_alignment = pytest.mark.skipif(not is_honoured(), reason="this build, or this glibc, puts the library anywhere")


@needs_alignment
def test_the_library_has_the_same_lower_32_bits_of_an_address_in_every_process():
    show = "import rueda; rueda.Handle; print([line for line in open('/proc/self/maps') if 'librueda.so' in line][0])"
    assert alignment_of(LIBRARY) == FOUR_GIB
    for _ in range(3):
        maps = subprocess.run([sys.executable, "-B", "-c", show], check=True, capture_output=True, text=True).stdout
        assert int(maps.split("-")[0], 16) % FOUR_GIB == 0, maps


@needs_alignment
def test_check_build_says_that_there_is_too_little_address_space_for_it():
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    said = subprocess.run([HVDRUN, "--check-build"], check=True, capture_output=True, text=True, preexec_fn=limit).stdout
    assert "[ ] librueda " in said and "failed to map segment" in said and "look at ulimit -v" in said, said
    assert "[X] librueda " in subprocess.run([HVDRUN, "--check-build"], check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(not TOOL.exists(), reason="not in the folder of a build")
def test_the_tool_aligns_a_copy_and_refuses_other_files(tmp_path):
    copy = tmp_path / "copy.so"
    data = bytearray(LIBRARY.read_bytes())
    struct.pack_into("<Q", data, first_segment(LIBRARY) + 48, 4096)
    copy.write_bytes(data)
    subprocess.run([TOOL, copy], check=True)
    assert alignment_of(copy) == FOUR_GIB
    for content, why in [(b"", "it ends at byte 0 or before"), (b"no library" * 100, "it is not a shared library of 64 bits"),
                         (bytes(data[:64]), "it ends at byte 64 or before")]:  # fmt: skip
        wrong = tmp_path / "wrong.so"
        wrong.write_bytes(content)
        done = subprocess.run([TOOL, wrong], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr == f"align_library: {wrong}: {why}\n", done
    missing = subprocess.run([TOOL, tmp_path / "none.so"], capture_output=True, text=True)
    assert missing.returncode == 1 and "it cannot be opened for reading and writing" in missing.stderr
