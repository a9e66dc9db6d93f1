"""Holds the tree to house_rules.py. Usage: house_test.py ROOT"""

import os
import sys
import unittest

import house_rules

FOLDERS = ["benchmarks", "bindings", "compression", "docs", "examples", "launcher", "ops", "runtime", "scripts", "tests"]


def read_tree(root):
    """Four dictionaries by path: the code in C and C++, the code in Python, the pages in Markdown, and all of docs/results."""
    code, python, pages, results = {}, {}, {}, {}
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    text = file.read()
                if house_rules.CODE.search(path):
                    code[path] = text
                elif house_rules.is_python(path, text):
                    python[path] = text
                elif path.endswith(".md"):
                    pages[path] = text
                if path.startswith("docs/results/"):
                    results[path] = text
    for name in ["README.md", "CONTRIBUTING.md"]:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            pages[name] = file.read()
    return code, python, pages, results


class House(unittest.TestCase):
    tree = {}
    python = {}
    pages = {}
    results = {}

    def holds(self, rule, files=None):
        complaints = rule(self.tree if files is None else files)
        self.assertEqual(complaints, [], "\n" + "\n".join(complaints))

    def sources(self):
        return {path: text for path, text in self.tree.items() if not path.startswith("tests/")}

    def test_the_tree_was_found(self):
        for path in ["bindings/c/rueda.h", "runtime/base/status.h", "ops/algorithm.h"]:
            self.assertIn(path, self.tree)
        for path in ["bindings/python/rueda/torch/optimizer.py", "benchmarks/torch_compare.py", "scripts/measure-network"]:
            self.assertIn(path, self.python)

    def test_no_folder_includes_a_higher_one(self):
        self.holds(house_rules.layers)

    def test_no_folder_includes_itself_through_others(self):
        self.holds(house_rules.cycles, self.sources())

    def test_the_build_picks_files_and_not_the_preprocessor(self):
        self.holds(house_rules.conditionals)

    def test_results_name_no_folder_of_a_machine(self):
        self.assertGreater(len(self.results), 100)
        self.holds(house_rules.machine_folders, self.results)

    def test_nothing_sleeps(self):
        self.holds(house_rules.sleeps)

    def test_nothing_is_left_open(self):
        self.holds(house_rules.open_ends)

    def test_macros_are_few_and_ours(self):
        self.holds(house_rules.macros, self.sources())

    def test_files_of_a_library_keep_no_two_things_under_one_name(self):
        self.holds(house_rules.private_names, self.sources())

    def test_files_are_short(self):
        self.holds(house_rules.long_files)
        self.holds(house_rules.long_files, self.python)

    def test_a_cc_file_opens_with_what_it_does(self):
        self.holds(house_rules.openings)

    def test_functions_are_short(self):
        self.holds(house_rules.long_functions, self.python)
        self.holds(house_rules.long_cpp_functions, self.sources())

    def test_no_comment_and_no_string_makes_a_reader_stumble(self):
        self.holds(house_rules.stumbles, self.sources())
        self.holds(house_rules.stumbles, {path: text for path, text in self.python.items() if not path.startswith("tests/")})

    def test_no_page_makes_a_reader_stumble(self):
        self.assertIn("docs/guide/getting-started.md", self.pages)
        self.holds(house_rules.stumbles, {path: text for path, text in self.pages.items() if not path.startswith("tests/")})

    def test_the_python_package_says_what_it_shows(self):
        self.holds(house_rules.docstrings, {path: text for path, text in self.python.items() if path.startswith("bindings/python/rueda/")})


if __name__ == "__main__":
    House.tree, House.python, House.pages, House.results = read_tree(sys.argv.pop())
    unittest.main()
