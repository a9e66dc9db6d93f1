"""The interface of librueda.so.1 only grows, so programs linked against an earlier rueda.h keep working.

After an addition run scripts/update-abi, which writes the files that later changes are compared with."""

import argparse
import os
import re
import subprocess
import sys
import unittest

import interface


class Abi(unittest.TestCase):
    options = None

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.dirname(os.path.abspath(__file__))
        with open(cls.options.header, encoding="utf-8") as file:
            cls.header = file.read()

    def committed(self, name):
        return os.path.join(self.folder, name)

    def differences(self, header):
        """Returns what changes from the header to another text of it."""
        scratch = os.path.join(self.options.scratch, self._testMethodName)
        before = os.path.join(scratch, "before.abi")
        library = interface.empty_library(self.header, os.path.join(scratch, "before"), self.options.cc)
        with open(before, "w", encoding="utf-8") as file:
            file.write(interface.dump(library))
        changed = interface.empty_library(header, os.path.join(scratch, "after"), self.options.cc)
        return interface.differences(before, changed, self.committed("additions.suppr"))

    def with_text(self, old, new):
        self.assertEqual(self.header.count(old), 1, old)
        return self.header.replace(old, new)

    def test_the_committed_interface_is_complete_and_unchanged(self):
        library = interface.empty_library(self.header, self.options.scratch, self.options.cc)
        dumped, allowed = self.committed("librueda.so.1.abi"), self.committed("additions.suppr")
        self.assertEqual(interface.differences(dumped, library, allowed), "")

    def test_constants_keep_their_values(self):
        with open(self.committed("constants.txt"), encoding="utf-8") as file:
            before = dict(line.split() for line in file)
        now = interface.constants(self.header)
        self.assertGreater(len(before), 30)
        for name, value in before.items():
            self.assertEqual(now.get(name), int(value), name)

    def test_the_library_exports_what_the_header_declares(self):
        table = subprocess.run(["nm", "-D", "--defined-only", self.options.library], stdout=subprocess.PIPE, check=True, text=True)
        exported = set(re.findall(r" T (rueda_\w+)", table.stdout))
        self.assertEqual(exported, interface.functions(self.header))

    def test_additions_pass(self):
        function = "RUEDA_API int32_t rueda_poll(rueda_handle handle);"
        self.assertEqual(self.differences(self.with_text(function, function + "\nRUEDA_API int32_t rueda_new(void);")), "")
        grown = self.with_text("} rueda_op_options;", "  int64_t grown;\n} rueda_op_options;")
        self.assertEqual(self.differences(grown), "")

    def test_a_removed_function_is_seen(self):
        gone = self.with_text("RUEDA_API int32_t rueda_poll(rueda_handle handle);", "")
        self.assertIn("rueda_poll", self.differences(gone))

    def test_a_changed_argument_is_seen(self):
        changed = self.with_text("rueda_poll(rueda_handle handle);", "rueda_poll(int32_t handle);")
        self.assertIn("rueda_poll", self.differences(changed))

    def test_a_field_that_moved_is_seen(self):
        moved = self.with_text("typedef struct rueda_op_options {\n  size_t struct_size;", "typedef struct rueda_op_options {\n  size_t struct_size;\n  void* inserted;")
        self.assertIn("rueda_op_options", self.differences(moved))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("header", "library", "scratch", "cc"):
        parser.add_argument("--" + name, required=True)
    Abi.options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
