"""Each rule of the house finds what it forbids and accepts what it allows."""

import unittest

import house_rules


class Rules(unittest.TestCase):
    def test_an_upward_include_is_found(self):
        files = {"runtime/net/link.h": "", "runtime/base/clock.cc": '#include "runtime/net/link.h"\n'}
        self.assertEqual(len(house_rules.layers(files)), 1)

    def test_a_downward_include_is_fine(self):
        files = {"runtime/base/clock.h": "", "runtime/net/link.cc": '#include "runtime/base/clock.h"\n'}
        self.assertEqual(house_rules.layers(files), [])

    def test_the_runtime_does_not_see_the_data_plane(self):
        files = {"ops/row.h": "", "runtime/engine/turn.cc": '#include "ops/row.h"\n'}
        self.assertEqual(len(house_rules.layers(files)), 1)

    def test_agreement_is_pure_because_it_sees_no_engine_and_no_network(self):
        files = {"runtime/net/link.h": "", "runtime/engine/turn.h": "", "runtime/base/wire.h": "", "runtime/diagnosis/stall.h": ""}
        files["runtime/agreement/arbiter.cc"] = '#include "runtime/base/wire.h"\n#include "runtime/diagnosis/stall.h"\n'
        self.assertEqual(house_rules.layers(files), [])
        for forbidden in ["runtime/net/link.h", "runtime/engine/turn.h"]:
            files["runtime/agreement/arbiter.cc"] = f'#include "{forbidden}"\n'
            self.assertEqual(len(house_rules.layers(files)), 1, forbidden)

    def test_an_example_sees_the_binding_by_its_installed_name(self):
        files = {"bindings/c/rueda.h": "", "runtime/base/a.h": "", "examples/a.c": '#include "rueda.h"\n'}
        self.assertEqual(house_rules.layers(files), [])
        files["examples/a.c"] = '#include "runtime/base/a.h"\n'
        self.assertEqual(len(house_rules.layers(files)), 1)

    def test_a_cycle_through_three_folders_is_found(self):
        files = {"a/a.h": '#include "b/b.h"\n', "b/b.h": '#include "c/c.h"\n', "c/c.h": '#include "a/a.h"\n'}
        self.assertEqual(len(house_rules.cycles(files)), 3)
        files["c/c.h"] = ""
        self.assertEqual(house_rules.cycles(files), [])

    def test_the_preprocessor_chooses_only_in_files_named_for_it(self):
        text = "#pragma once\n  # ifdef __AVX2__\n#endif\n"
        self.assertEqual(len(house_rules.conditionals({"ops/reduce.cc": text})), 1)
        self.assertEqual(house_rules.conditionals({"ops/reduce_avx2.cc": text}), [])

    def test_a_sleep_is_found_with_its_line(self):
        complaints = house_rules.sleeps({"tests/a_test.cc": "int a;\nusleep(10);\n"})
        self.assertEqual(len(complaints), 1)
        self.assertTrue(complaints[0].startswith("tests/a_test.cc:2 "))
        self.assertEqual(house_rules.sleeps({"a.h": "std::atomic<bool> asleep;\n"}), [])

    def test_a_folder_of_a_machine_is_found(self):
        files = {"docs/results/a.json": '{"command": "mpirun -np 2 /work/build/bin/perf"}\n'}
        self.assertEqual(len(house_rules.machine_folders(files)), 1)
        files = {"docs/results/a.md": "see 2-core-vm/work/ and https://example.org/home/x, build/root/y\n"}
        self.assertEqual(house_rules.machine_folders(files), [])

    def test_an_open_end_is_found(self):
        self.assertEqual(len(house_rules.open_ends({"a.h": "// TO" + "DO later\n"})), 1)

    def test_foreign_and_many_macros_are_found(self):
        self.assertEqual(house_rules.macros({"a.h": "#define RUEDA_ON(x)\n"}), [])
        self.assertEqual(len(house_rules.macros({"a.h": "#define CHECK(x)\n"})), 1)
        many = "".join(f"#define RUEDA_{n}\n" for n in range(house_rules.MOST_MACROS))
        self.assertEqual(len(house_rules.macros({"a.h": many})), 1)

    def test_two_private_things_of_one_name_in_a_library_are_found(self):
        def file(inside):
            return "namespace rueda {\nnamespace {\n\n" + inside + "\n\n}  // namespace\n}  // namespace rueda\n"

        for inside in ["enum Phase { kA };", "constexpr size_t kMost = 4;", "int half(int a) { return a / 2; }", "struct Part {\n  int a;\n};"]:
            self.assertEqual(len(house_rules.private_names({"ops/a.cc": file(inside), "runtime/b.cc": file(inside)})), 1, inside)
            self.assertEqual(house_rules.private_names({"ops/a.cc": file(inside), "launcher/b.cc": file(inside)}), [])
        overloads = {"ops/a.cc": file("int half(int a) { return a / 2; }"), "ops/b.cc": file("int half(long a) { return 0; }")}
        self.assertEqual(house_rules.private_names(overloads), [])

    def test_a_file_of_too_many_lines_is_found(self):
        limit = house_rules.MOST_LINES
        self.assertEqual(house_rules.long_files({"a.h": "\n" * limit}), [])
        self.assertEqual(len(house_rules.long_files({"a.h": "\n" * (limit + 1)})), 1)

    def test_a_cc_file_of_a_folder_that_opens_with_a_sentence_does(self):
        house_rules.OPENING_FOLDERS = ["ops/"]
        for text in ["// What it does.\n", "/* What\n it does. */\n"]:
            self.assertEqual(house_rules.openings({"ops/cpu/a.cc": text + "#include <vector>\n"}), [], text)
        for text in ["", '#include "a.h"\n// Late.\n', "\n// Behind an empty line.\n"]:
            self.assertEqual(len(house_rules.openings({"ops/cpu/a.cc": text})), 1, text)
            self.assertEqual(house_rules.openings({"ops/a.h": text, "opsy/a.cc": text, "runtime/ops/a.cc": text}), [])

    def test_python_is_known_by_its_name_or_by_its_interpreter(self):
        self.assertTrue(house_rules.is_python("a/b.py", ""))
        for line in ["#!/usr/bin/env python3\n", "#!/usr/bin/python\n", "#!/usr/bin/env -S python3 -B\n"]:
            self.assertTrue(house_rules.is_python("scripts/measure", line), line)
        for path, line in [("scripts/wheel", "#!/usr/bin/env bash\n# for python\n"), ("a.md", "#!/usr/bin/python\n"), ("a", "#! pythonic\n")]:
            self.assertFalse(house_rules.is_python(path, line), line)

    def test_a_long_function_of_python_is_found_with_its_line_wherever_it_is(self):
        def function(lines, indent):
            return f"{indent}def long():\n" + f"{indent}    pass\n" * (lines - 1)

        limit = house_rules.MOST_FUNCTION_LINES
        for before, indent in [("", ""), ("class A:\n", "    "), ("def outer():\n", "    ")]:
            short = "x = 1\n" + before + function(limit - 1, indent)
            self.assertEqual(house_rules.long_functions({"a.py": short}), [], before)
            complaints = house_rules.long_functions({"a.py": "x = 1\n" + before + function(limit + 1, indent)})
            self.assertTrue(any(f"long() has {limit + 1} lines" in complaint for complaint in complaints), before)
            self.assertTrue(complaints[-1].startswith(f"a.py:{2 + bool(before)} "), before)

    def test_what_a_module_shows_has_a_docstring(self):
        told = '"""Module."""\nclass A:\n    """Class."""\n    def f(self):\n        """Method."""\n    def _g(self): pass\ndef _h(): pass\n'
        self.assertEqual(house_rules.docstrings({"a.py": told, "empty.py": ""}), [])
        for number, text in enumerate(["Module", "Class", "Method"], 1):
            complaints = house_rules.docstrings({"a.py": told.replace(f'"""{text}."""', "0")})
            self.assertEqual(len(complaints), 1, text)

    def test_what_makes_a_reader_stumble_is_found_in_comments_and_strings_and_not_in_code(self):
        for text in ["// False: still running.", "/// Who holds it runs turns.", "// two ranks, of which one waits", 'say("the end of that.");',
                     "/// Ranks,\n/// who\n/// wait."]:  # fmt: skip
            self.assertEqual(len(house_rules.stumbles({"ops/a.cc": text})), 1, text)
        for text in ["int who = of_which;", "// Returns false if it still runs.", "// A rank that waits.", "// The rest waits after that."]:
            self.assertEqual(house_rules.stumbles({"ops/a.cc": text}), [], text)
        for text in ["/// The rank is no member.", "// Empty where there is none.", "// a thread of ours", 'say("it is none of its ranks");']:
            self.assertEqual(len(house_rules.stumbles({"ops/a.cc": text})), 1, text)
        self.assertEqual(house_rules.stumbles({"ops/a.cc": "// There is no rank, and it is no longer known."}), [])
        page = "# A page\n\nTwo ranks wait,\nof which one sleeps.\n\n```\nof which\n```\n\n| a | who is told |\n"
        self.assertEqual([text.split(" ")[0] for text in house_rules.stumbles({"docs/a.md": page})], ["docs/a.md:3"])
        self.assertEqual(len(house_rules.stumbles({"a.py": 'who = 1\n"""None: nothing came."""\n# Empty: no.\n'})), 2)

    def test_a_long_function_in_cpp_is_found_by_its_first_line(self):
        body = "  call({1, 2});\n" * house_rules.MOST_FUNCTION_LINES
        file = "namespace a {\nstruct B {\n  int c = 0;\n};\nint f(int x) {\n" + body + "}\n}  // namespace a\n"
        self.assertEqual(len(house_rules.long_cpp_functions({"ops/a.cc": file})), 1)
        self.assertIn("ops/a.cc:5 ", house_rules.long_cpp_functions({"ops/a.cc": file})[0])
        self.assertEqual(house_rules.long_cpp_functions({"ops/a.cc": file.replace("  call({1, 2});\n", "", 3)}), [])


if __name__ == "__main__":
    unittest.main()
