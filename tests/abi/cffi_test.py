"""Binds the library with Python's cffi as the author of a binding for another language would: from the header's text and
the library alone."""

import argparse
import re
import subprocess
import sys
import unittest

import cffi


def declarations(path):
    """Returns the header's declarations, without comments and preprocessor lines."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif$", "", text, flags=re.M | re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return text.replace("RUEDA_API ", "")


class Rueda:
    """The library in ABI mode."""

    def __init__(self, header, library):
        self.ffi = cffi.FFI()
        self.ffi.cdef(declarations(header))
        self.lib = self.ffi.dlopen(library)

    def check(self, code):
        if code != self.lib.RUEDA_OK:
            sentence = self.ffi.string(self.lib.rueda_last_error()).decode()
            raise RuntimeError(f"{self.ffi.string(self.lib.rueda_error_name(code)).decode()}: {sentence}")

    def struct(self, kind, **fields):
        return self.ffi.new(f"{kind}*", {"struct_size": self.ffi.sizeof(kind), **fields})

    def init(self):
        session = self.ffi.new("rueda_session**")
        self.check(self.lib.rueda_init(self.ffi.NULL, session))
        return session[0]

    def sum(self, session, values, name):
        """Returns the sum over the ranks. Enqueues the operation, waits for it and releases it."""
        data, shape = self.ffi.new("float[]", values), self.ffi.new("int64_t[]", [len(values)])
        tensor = self.struct("rueda_tensor", data=data, dtype=self.lib.RUEDA_F32, dimensions=1, shape=shape)
        text = self.ffi.new("char[]", name.encode())
        options, handle = self.struct("rueda_op_options", name=text), self.ffi.new("rueda_handle*")
        self.check(self.lib.rueda_allreduce_async(session, tensor, tensor, self.lib.RUEDA_SUM, options, handle))
        self.check(self.lib.rueda_wait(handle[0], -1.0))
        self.check(self.lib.rueda_release(handle[0]))
        return list(data)


def run_rank(rueda):
    session = rueda.init()
    rank, size = rueda.lib.rueda_rank(session), rueda.lib.rueda_size(session)
    total = rueda.sum(session, [rank + 1.0, 10.0 * rank], "from Python")
    rueda.check(rueda.lib.rueda_shutdown(session))
    print(f"rank {rank} of {size}: {total}")


class Cffi(unittest.TestCase):
    options = None

    @classmethod
    def setUpClass(cls):
        cls.rueda = Rueda(cls.options.header, cls.options.library)

    def test_every_declared_function_is_in_the_library(self):
        names = re.findall(r"\b(rueda_\w+)\([^;()]*\);", declarations(self.options.header))
        self.assertGreater(len(names), 30)
        for name in names:
            self.assertTrue(getattr(self.rueda.lib, name), name)

    def test_constants_have_the_header_s_values(self):
        self.assertEqual((self.rueda.lib.RUEDA_F32, self.rueda.lib.RUEDA_OPAQUE, self.rueda.lib.RUEDA_BXOR), (10, 15, 8))

    def test_the_sum_of_one_rank_is_its_own_tensor(self):
        session = self.rueda.init()
        self.assertEqual(self.rueda.sum(session, [1.5, -2.0], "alone"), [1.5, -2.0])
        with self.assertRaisesRegex(RuntimeError, "INVALID_ARGUMENT: .*1024"):
            self.rueda.sum(session, [1.0], "n" * 2000)
        self.rueda.check(self.rueda.lib.rueda_shutdown(session))

    def test_a_callback_in_python_is_called_with_the_handle(self):
        ffi, lib = self.rueda.ffi, self.rueda.lib
        told = []

        @ffi.callback("rueda_callback")
        def finished(context, handle, code):
            told.append((handle, code, ffi.from_handle(context)))

        session, context, handle = self.rueda.init(), ffi.new_handle("mine"), ffi.new("rueda_handle*")
        options = self.rueda.struct("rueda_op_options", callback=finished, callback_context=context)
        self.rueda.check(lib.rueda_barrier_async(session, options, handle))
        self.rueda.check(lib.rueda_wait(handle[0], -1.0))
        self.rueda.check(lib.rueda_shutdown(session))  # waits for callbacks
        self.assertEqual(told, [(handle[0], lib.RUEDA_OK, "mine")])
        self.rueda.check(lib.rueda_release(handle[0]))

    def test_two_ranks_under_hvdrun_sum_across_processes(self):
        program = [sys.executable, "-B", *sys.argv[:1], "--header", self.options.header, "--library", self.options.library]
        done = subprocess.run(
            [self.options.hvdrun, "-np", "2", "-H", "localhost:2", *program, "--hvdrun", "-", "--rank"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2: [3.0, 10.0]", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("header", "library", "hvdrun"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--rank", action="store_true", help="be one rank of a job")
    Cffi.options, rest = parser.parse_known_args()
    if Cffi.options.rank:
        run_rank(Rueda(Cffi.options.header, Cffi.options.library))
    else:
        unittest.main(argv=sys.argv[:1] + rest)
