"""The README and the guide say what is true: code, commands, flags, settings, files and links."""

import argparse
import glob
import os
import re
import subprocess
import sys
import unittest

# Programs whose flags are checked wherever a document shows a command.
PROGRAMS = ("hvdrun", "rueda-perf", "train_digits")


def blocks(text, language):
    """The code blocks of a Markdown text in that language, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


class Documents(unittest.TestCase):
    root = ""
    bin = ""

    def path(self, name):
        return os.path.join(self.root, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def documents(self):
        found = glob.glob(self.path("*.md")) + glob.glob(self.path("docs/**/*.md"), recursive=True)
        found += glob.glob(self.path("examples/**/*.md"), recursive=True)
        return [os.path.relpath(path, self.root) for path in sorted(found)]

    def output(self, program, *arguments):
        return subprocess.run([os.path.join(self.bin, program), *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout

    def test_the_first_programs_of_the_guide_are_the_examples(self):
        guide = self.read("docs/guide/c-api.md")
        self.assertIn(self.read("examples/hello_allreduce.c"), blocks(guide, "c"))
        self.assertIn(self.read("examples/hello_allreduce.cc"), blocks(guide, "cpp"))

    def test_the_python_of_the_readme_begins_a_piece_of_the_guide(self):
        # The tests of the Python package run every piece of these two pages.
        guide = [piece for page in ("pytorch", "torch-distributed") for piece in blocks(self.read(f"docs/guide/{page}.md"), "python")]
        pieces = blocks(self.read("README.md"), "python")
        self.assertEqual(2, len(pieces))
        for piece in pieces:
            self.assertTrue(any(known.startswith(piece) for known in guide), piece)

    def test_a_figure_differs_from_its_dark_form_in_colours_only(self):
        light, dark = (self.read(f"docs/figures/one-tensors-way-{theme}.svg") for theme in ("light", "dark"))
        self.assertNotEqual(light, dark)
        self.assertEqual(*(re.sub(r"#[0-9a-f]{6}", "#", figure) for figure in (light, dark)))

    def test_the_settings_of_the_guide_are_those_of_the_program(self):
        printed = self.output("print_settings")
        remedy = "print_settings prints the table; put its output into docs/guide/settings.md"
        self.assertEqual(self.read("docs/guide/settings.md"), printed, remedy)

    def test_every_flag_in_a_document_exists(self):
        known = {program: set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", self.output(program, "--help"))) for program in PROGRAMS}
        known["hvdrun"] |= {"--hosts", "--np"}
        for document in self.documents():
            for line in self.read(document).splitlines():
                command = re.search(r"(?:^|[\s`/(])(hvdrun|rueda-perf|train_digits) (-.*)", line.split(" #")[0])
                if not command:
                    continue
                self.check_flags(document, command.group(1), command.group(2), known)

    def check_flags(self, document, program, words, known):
        for word in re.split(r"[\s`,;:()]+", words):
            name = os.path.basename(word)
            if name in PROGRAMS:
                program = name
            elif name.startswith("train") or word.startswith("./"):
                return  # a program of the user's, with flags of its own
            elif re.fullmatch(r"--?[a-zA-Z][\w-]*(=.*)?", word):
                flag = word.split("=")[0]
                self.assertIn(flag, known[program], f"{document} gives {program} the flag {flag}")

    def test_every_script_in_a_document_exists(self):
        for document in self.documents():
            for script in re.findall(r"\bscripts/[\w-]+", self.read(document)):
                self.assertTrue(os.access(self.path(script), os.X_OK), f"{document} names {script}")

    def test_every_program_of_the_build_in_a_document_exists(self):
        for document in self.documents():
            for program in re.findall(r"\bbuild/release/bin/([\w-]+)", self.read(document)):
                self.assertTrue(os.path.exists(os.path.join(self.bin, program)), f"{document} names {program}")

    def test_every_link_leads_somewhere(self):
        for document in self.documents():
            prose = re.sub(r"^```.*?^```$|`[^`]*`", "", self.read(document), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', prose):
                if not link.startswith("http"):
                    target = os.path.join(os.path.dirname(self.path(document)), link)
                    self.assertTrue(os.path.exists(target), f"{document} links to {link}")

    def test_every_source_in_the_overview_exists(self):
        overview = self.read("docs/overview.md")
        for path in re.findall(r"`((?:runtime|ops|bindings|compression|launcher|tests|docs)/[\w./-]+)`", overview):
            if "NAME" not in path:
                self.assertTrue(os.path.exists(self.path(path)), f"the overview names {path}")
        places = re.findall(r"((?:`\w+(?:::\w+)+`(?: and |, )?)+) in `(runtime/[\w./-]+\.cc)`", overview)
        self.assertGreater(len(places), 4)
        for functions, path in places:
            for function in re.findall(r"`(.*?)`", functions):
                self.assertIn(f" {function}(", self.read(path), f"the overview names {function}")

    def test_every_variable_in_a_document_is_read(self):
        places = [self.read(name) for name in ("bindings/c/rueda.h", "bindings/c/librueda.map", "CMakeLists.txt")]
        known = set(re.findall(r"RUEDA_[A-Z_0-9]+", self.output("print_settings") + "".join(places)))
        for document in self.documents():
            for name in re.findall(r"\bRUEDA_[A-Z0-9_]*[A-Z0-9]\b", self.read(document)):
                self.assertIn(name, known | self.macros(), f"{document} names {name}")

    def macros(self):
        found = set()
        for path in glob.glob(self.path("runtime/**/*.h"), recursive=True):
            with open(path, encoding="utf-8") as file:
                found |= set(re.findall(r"#define (RUEDA_\w+)", file.read()))
        return found

    def test_every_test_of_the_lessons_exists(self):
        forms = "tests/**/*_test.cc", "tests/**/*_test.py", "tests/python/**/test_*.py"
        sources = [path for form in forms for path in glob.glob(self.path(form), recursive=True)]
        texts = [self.read(os.path.relpath(path, self.root)) for path in sources]
        tests = {name for text in texts for name in re.findall(r'TEST_CASE\(\s*"([^"]+)"', text) + re.findall(r"def (test_\w+)", text)}
        rows = re.findall(r"^\| .*? \| (`.*`) \|$", self.read("tests/LESSONS.md"), re.M)
        self.assertGreater(len(rows), 20)
        for row in rows:
            for name in re.findall(r"`([^`]+)`", row):
                self.assertTrue(name in tests, f"tests/LESSONS.md names {name}")

    def test_the_index_of_decisions_lists_each_under_its_title(self):
        pages = sorted(glob.glob(self.path("docs/decisions/[0-9]*.md")))
        listed = re.findall(r"^\| \[(\d+)\]\((.*?)\) \| (.*) \|$", self.read("docs/decisions/README.md"), re.M)
        titles = [self.read(os.path.relpath(page, self.root)).splitlines()[0].removeprefix("# ") for page in pages]
        names = [os.path.basename(page) for page in pages]
        self.assertEqual([(name[:4], name, title) for name, title in zip(names, titles)], listed)

    def test_every_folder_of_the_map_exists(self):
        source_map = self.read("README.md").split("## The source")[1].split("\n## ")[0]
        for row in re.findall(r"^\| (`.*?) \|", source_map, re.M):
            for folder in re.findall(r"`([\w/]+)`", row):
                self.assertTrue(os.path.isdir(self.path(folder)), folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    Documents.root, Documents.bin = options.root, options.bin
    unittest.main(argv=sys.argv[:1] + rest)
