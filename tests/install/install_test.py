"""Installs the build into an empty folder and uses it as another project would."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import unittest

OUTSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "outside")


def run(*command, **more):
    """Runs the command and returns its standard output; raises with all of its output if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Install(unittest.TestCase):
    options = None

    @classmethod
    def setUpClass(cls):
        cls.prefix = os.path.join(cls.options.scratch, "prefix")
        cls.programs = os.path.join(cls.options.scratch, "programs")
        for folder in (cls.prefix, cls.programs):
            shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(cls.programs)
        run("cmake", "--install", cls.options.build, "--prefix", cls.prefix)
        cls.hvdrun = cls.installed("bin/hvdrun")

    @classmethod
    def tearDownClass(cls):
        for folder in (cls.prefix, cls.programs):
            shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def installed(cls, path):
        return os.path.join(cls.prefix, path)

    def pkg_config(self, *arguments):
        environment = dict(os.environ, PKG_CONFIG_PATH=self.installed("lib/pkgconfig"))
        return run("pkg-config", *arguments, "rueda", env=environment).split()

    def check_runs(self, program, library=True):
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        if library:
            environment["LD_LIBRARY_PATH"] = self.installed("lib")
        output = run(self.hvdrun, "-np", "2", program, env=environment)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2: the ranks add up to 1", output)

    def test_a_user_s_files_are_installed(self):
        for path in [
            "bin/hvdrun", "bin/rueda-perf", "bin/rueda-timeline", "include/rueda.h", "include/rueda.hpp", "include/rueda/session.hpp",
            "lib/librueda.so", "lib/librueda.so.1", "lib/cmake/Rueda/RuedaConfig.cmake", "lib/pkgconfig/rueda.pc",
            "share/bash-completion/completions/hvdrun", "share/doc/Rueda/LICENSE",
        ]:  # fmt: skip
            self.assertTrue(os.path.exists(self.installed(path)), path)

    def test_no_internal_file_is_installed_except_sources_of_rueda_build_mpi(self):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.prefix) for name in names]
        found = [path for path in found if not path.startswith(self.installed("share/rueda/mpi-plugin/"))]
        inside = [path for path in found if path.endswith((".a", ".cc", ".h")) and os.path.basename(path) != "rueda.h"]
        self.assertEqual(inside, [])

    def test_rueda_build_mpi_makes_a_plug_in_from_the_installed_files(self):
        if not os.path.exists(self.installed("lib/librueda_mpi.so")):
            self.skipTest("built without MPI")
        plugin = os.path.join(self.programs, "librueda_mpi.so")
        printed = run(self.installed("bin/rueda-build-mpi"), "-o", plugin, env=dict(os.environ, CXXFLAGS="-O0"))
        self.assertEqual(printed.splitlines()[-1], f"export RUEDA_MPI_PLUGIN={plugin}")
        checked = run(self.hvdrun, "--check-build", env=dict(os.environ, RUEDA_MPI_PLUGIN=plugin))
        self.assertRegex(checked, rf"\[X\] mpi +.*, {plugin}")
        self.assertRegex(run(self.hvdrun, "--check-build"), r"\[X\] mpi +.*/lib/librueda_mpi.so")

    def test_the_library_exports_only_the_c_api_with_versions(self):
        table = run("nm", "-D", "--defined-only", "--with-symbol-versions", self.installed("lib/librueda.so.1"))
        symbols = [line.split()[-1] for line in table.splitlines()]
        functions = {symbol.split("@")[0] for symbol in symbols} - {"RUEDA_1"}
        strangers = [symbol for symbol in symbols if not re.fullmatch(r"rueda_\w+@@RUEDA_1|RUEDA_1(@@RUEDA_1)?", symbol)]
        self.assertEqual(strangers, [])
        with open(self.installed("include/rueda.h"), encoding="utf-8") as header:
            declared = set(re.findall(r"^RUEDA_API .*?(rueda_\w+)\(", header.read(), re.M))
        self.assertEqual(functions, declared)

    def test_the_soname_has_the_major_version(self):
        self.assertRegex(run("readelf", "-d", self.installed("lib/librueda.so")), r"soname: \[librueda\.so\.1\]")

    def test_a_cmake_project_finds_the_package(self):
        build = os.path.join(self.programs, "cmake")
        run("cmake", "-S", OUTSIDE, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DEXAMPLES={self.options.examples}", f"-DCMAKE_C_COMPILER={self.options.cc}",
            f"-DCMAKE_CXX_COMPILER={self.options.cxx}")  # fmt: skip
        run("cmake", "--build", build)
        for program in ("hello_c", "hello_cpp"):
            self.check_runs(os.path.join(build, program))

    def test_a_makefile_finds_it_by_pkg_config(self):
        flags = self.pkg_config("--cflags", "--libs")
        for compiler, standard, source in (
            (self.options.cc, "-std=c99", "hello_allreduce.c"),
            (self.options.cxx, "-std=c++20", "hello_allreduce.cc"),
        ):
            program = os.path.join(self.programs, os.path.basename(compiler) + "_hello")
            run(compiler, standard, os.path.join(self.options.examples, source), "-o", program, *flags)
            self.check_runs(program)

    def test_the_guides_commands_for_a_prefix_of_your_own_work(self):
        guide = os.path.join(self.options.examples, "..", "docs", "guide", "getting-started.md")
        with open(guide, encoding="utf-8") as page:
            lines = re.search(r"A prefix of your own.*?```sh\n(.*?)```", page.read(), re.S).group(1)
        home = os.path.join(self.programs, "home")
        os.makedirs(home)
        os.symlink(self.prefix, os.path.join(home, "rueda"))
        shutil.copy(os.path.join(self.options.examples, "hello_allreduce.c"), os.path.join(home, "train.c"))
        unset = ("LD_LIBRARY_PATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment["HOME"] = home
        configure = f"cmake -S {OUTSIDE} -B build -G Ninja -DEXAMPLES={self.options.examples} && cmake --build build"
        run("bash", "-ec", lines + configure, env=environment, cwd=home)
        for program in ("train", "build/hello_cpp"):
            self.check_runs(os.path.join(home, program), library=False)

    def test_package_library_and_hvdrun_have_the_same_version(self):
        version = self.pkg_config("--modversion")[0]
        self.assertTrue(os.path.exists(self.installed(f"lib/librueda.so.{version}")), version)
        self.assertTrue(run(self.hvdrun, "--version").startswith(f"hvdrun {version} (build "))

    def test_each_header_compiles_alone_without_warnings(self):
        strict = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        c_header, folder = self.installed("include/rueda.h"), self.installed("include/rueda")
        run(self.options.cc, "-std=c99", "-x", "c", *strict, c_header)
        run(self.options.cxx, "-std=c++11", "-x", "c++", *strict, c_header)
        headers = [self.installed("include/rueda.hpp")] + [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        for header in headers:
            source = os.path.join(self.programs, "includes.cc")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f'#include "{header}"\n')
            run(self.options.cxx, "-std=c++20", f"-I{self.installed('include')}", *strict, source)

    def test_bash_completes_hvdrun_s_flags(self):
        script = f"source {self.installed('share/bash-completion/completions/hvdrun')} && complete -p hvdrun"
        self.assertEqual(run("bash", "-c", script), "complete -F _hvdrun hvdrun\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("build", "scratch", "examples", "cc", "cxx"):
        parser.add_argument("--" + name, required=True)
    Install.options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
