"""The binary interface of librueda.so.1, read from rueda.h.

A program is compiled against the header alone. The library's own sources do not compile against another header, and the
real library has no debug information. So the interface is dumped from a library of empty functions with the header's
declarations."""

import os
import re
import subprocess

SONAME = "librueda.so.1"
DECLARATION = re.compile(r"^RUEDA_API ([^;]*?)(\w+)(\([^;]*\));", re.M)


def functions(header):
    """Returns the names of the functions that the header declares."""
    return {match.group(2) for match in DECLARATION.finditer(header)}


def constants(header):
    """Returns name and value of each constant of the header."""
    return {name: int(value) for name, value in re.findall(r"\b(RUEDA_[A-Z0-9_]+) = (-?\d+)", header)}


def empty_library(header, folder, cc="cc"):
    """Compiles the empty library for a header in `folder` and returns its path."""
    os.makedirs(folder, exist_ok=True)
    source, library = os.path.join(folder, "empty.c"), os.path.join(folder, SONAME)
    bodies = [f"{result}{name}{arguments} {{ __builtin_trap(); }}" for result, name, arguments in DECLARATION.findall(header)]
    with open(source, "w", encoding="utf-8") as file:
        file.write(header + "\n" + "\n".join(bodies) + "\n")
    subprocess.run([cc, "-std=c99", "-g", "-w", "-fPIC", "-shared", f"-Wl,-soname,{SONAME}", source, "-o", library], check=True)
    return library


def dump(library):
    """Returns the interface of a library as abidw's XML, without paths and lines of this machine."""
    command = ["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", library]
    dumped = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return re.sub(r" path='[^']*/empty\.c'", " path='empty.c'", dumped)


def differences(dumped, library, allowed):
    """Returns abidiff's report of the changes from a committed dump to a library; empty if there are none. Additions and
    changes that the file `allowed` describes do not count."""
    done = subprocess.run(
        ["abidiff", "--no-added-syms", "--suppressions", allowed, dumped, library],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"abidiff ended with {done.returncode}:\n{done.stdout}"
