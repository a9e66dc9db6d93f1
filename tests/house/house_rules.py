"""The rules of the house that a program can check. Each rule takes {path: text} and returns its complaints, a line each."""

import ast
import collections
import io
import os
import re
import tokenize

CODE = re.compile(r"\.(c|cc|h|hpp)$")
PYTHON = re.compile(r"#!.*\bpython3?\b.*\n")

# folder -> folders its files may include besides itself; of several that match, the longest prefix holds.
LAYERS = {
    "runtime/base": [],
    "runtime/diagnosis": ["runtime/base"],
    "runtime/net": ["runtime/base"],
    "runtime/agreement": ["runtime/diagnosis", "runtime/base"],
    "runtime/store": ["runtime/net", "runtime/base"],
    "runtime/rendezvous": ["runtime/store", "runtime/net", "runtime/base"],
    "runtime/engine": ["runtime/agreement", "runtime/diagnosis", "runtime/rendezvous", "runtime/store", "runtime/net", "runtime/base"],
    "compression": ["runtime/base"],
    "ops": ["compression", "runtime"],
    "launcher": ["runtime/diagnosis", "runtime/rendezvous", "runtime/store", "runtime/net", "runtime/base"],
    "bindings": ["ops", "compression", "runtime"],
    "examples": ["bindings"],
}

# Where installed headers are found by their bare name.
INCLUDE_FOLDERS = ["", "bindings/c", "bindings/cpp"]

# Files named for what they depend on, and two that meet other languages or compilers by nature.
CONDITIONAL = re.compile(r"_(x86|portable|generic|avx2|avx512)\.|^bindings/c/rueda\.h$|/thread_annotations\.h$")

MOST_LINES = 400
# The C API is one header, which programs in other languages read whole.
MOST_LINES_OF = {"bindings/c/rueda.h": 800}
MOST_MACROS = 10
MOST_FUNCTION_LINES = 60

# Folders in which every .cc file opens with a comment.
OPENING_FOLDERS = ["benchmarks/", "bindings/", "compression/", "examples/", "launcher/", "ops/", "runtime/"]

# What a stranger reads twice, in comments and in what users are told: pattern -> better.
STUMBLES = {
    r"\bof which\b": "name it again",
    r"(?:^|[.;:,(]\s+|\b(?:and|or|but|of|to|for|by|says|tells|knows|asks|matter|decides)\s+)[Ww]ho\b(?! knows)": "name the actor",
    r"\b(?:of|with|by|from|for|to|at|in|on) that[.,;)]": "name it again",
    r"(?:^|[.]\s+)(?:False|True|Empty|Null|None): ": "returns false if, empty if",
    r"(?<![Tt]here )(?<!that )\bis no (?!longer|more|fewer|less|one\b|news\b)": "is not a",
    r"(?<!here )\bis none of\b": "is not one of",
    r"\b(?:store|listener|name|thread|process|file|library) of ours\b": "name the owner",
    r"(?<!from )\b[Ww]here (?:there|nothing|nobody) (?:is|are)\b": "if there is",
}


def layer(path):
    fitting = [folder for folder in LAYERS if path.startswith(folder + "/")]
    return max(fitting, key=len) if fitting else None


def resolve(path, name, files):
    """The file of the tree that `#include "name"` in `path` means, or None."""
    for folder in [os.path.dirname(path)] + INCLUDE_FOLDERS:
        target = os.path.normpath(os.path.join(folder, name))
        if target in files:
            return target
    return None


def includes(files):
    """Pairs (path, included path) within the tree."""
    for path, text in sorted(files.items()):
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.M):
            target = resolve(path, name, files)
            if target:
                yield path, target


def layers(files):
    complaints = []
    for path, target in includes(files):
        source, destination = layer(path), layer(target)
        if not source or not destination or source == destination:
            continue
        if not any((destination + "/").startswith(allowed + "/") for allowed in LAYERS[source]):
            allowed = ", ".join(LAYERS[source]) or "nothing else"
            complaints.append(f"{path} includes {target}; {source} may include {allowed}")
    return complaints


def cycles(files):
    graph = collections.defaultdict(set)
    for path, target in includes(files):
        if os.path.dirname(path) != os.path.dirname(target):
            graph[os.path.dirname(path)].add(os.path.dirname(target))

    def reachable(start):
        seen, ahead = set(), [start]
        while ahead:
            for folder in graph[ahead.pop()] - seen:
                seen.add(folder)
                ahead.append(folder)
        return seen

    return [f"{folder} includes itself through other folders" for folder in sorted(graph) if folder in reachable(folder)]


def find(files, pattern, complaint):
    complaints = []
    for path, text in sorted(files.items()):
        for match in re.finditer(pattern, text, re.M):
            line = text.count("\n", 0, match.start(1)) + 1
            complaints.append(f"{path}:{line} {complaint}: {match.group(1)}")
    return complaints


def conditionals(files):
    plain = {path: text for path, text in files.items() if not CONDITIONAL.search(path)}
    return find(plain, r"^\s*(#\s*(?:if|ifdef|ifndef|elif)\b.*)", "chooses by the preprocessor; the build picks files")


def sleeps(files):
    return find(files, r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(", "sleeps; wait for what is to happen")


def machine_folders(files):
    return find(files, r"(?<![\w.~/])(/(?:home|root|work|mnt|builds)/\S+)", "names a folder of the machine that it was measured on")


def open_ends(files):
    return find(files, r"\b(TODO|FIXME|XXX)\b", "leaves something open")


def macros(files):
    pattern = re.compile(r"^\s*#\s*define\s+(\w+)", re.M)
    names = {}
    for path, text in sorted(files.items()):
        for name in pattern.findall(text):
            names.setdefault(name, path)
    complaints = [f"{path} defines {name}; macros begin with RUEDA_" for name, path in names.items() if not name.startswith("RUEDA_")]
    guards = {"RUEDA_H", "RUEDA_API"}
    if len(set(names) - guards) >= MOST_MACROS:
        complaints.append(f"{len(set(names) - guards)} macros, fewer than {MOST_MACROS} are allowed: {', '.join(sorted(names))}")
    return complaints


# Files of one library, which the presets compile in batches: what two of them keep to themselves under one
# name meets in a batch, today or when a file is added.
BATCHES = {"runtime": "core", "ops": "core", "compression": "core"}
PRIVATE = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
DEFINED = [
    re.compile(r"^(?:struct|class|enum class|enum) (\w+)", re.M),
    re.compile(r"^(?:static |inline )?constexpr [\w:<>, ]+ (k\w+)", re.M),
    re.compile(r"^(?!template|using|return|struct|class|enum)\w[\w:<>,&* ]*[ &*](\w+\([^)]*\)) (?:const )?\{", re.M),
]


def private_names(files):
    homes = collections.defaultdict(list)
    for path, text in sorted(files.items()):
        folder = os.path.dirname(path)
        batch = BATCHES.get(folder.split("/")[0], folder)
        names = {name for part in PRIVATE.findall(text) for pattern in DEFINED for name in pattern.findall(part)}
        for name in names if path.endswith(".cc") else []:
            homes[batch, name].append(path)
    return [f"{name} is private to each of {', '.join(paths)}" for (_, name), paths in sorted(homes.items()) if len(paths) > 1]


def long_files(files):
    counts = {path: text.count("\n") for path, text in files.items()}
    limits = {path: MOST_LINES_OF.get(path, MOST_LINES) for path in files}
    return [f"{path} has {count} lines, {limits[path]} are allowed" for path, count in sorted(counts.items()) if count > limits[path]]


def is_python(path, text):
    """Whether a file of the tree is Python: by its name, or by the interpreter that its first line names."""
    return path.endswith(".py") or (not os.path.splitext(path)[1] and PYTHON.match(text) is not None)


def openings(files):
    """A .cc file says what it does before the first line that a compiler reads."""
    sources = [path for path in sorted(files) if path.endswith(".cc") and (os.path.dirname(path) + "/").startswith(tuple(OPENING_FOLDERS))]
    return [f"{path} opens without a comment that says what it does" for path in sources if not files[path].startswith(("//", "/*"))]


COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\\\.|[^"\\\\\n])*"', re.S)
MARK = re.compile(r"^\s*(?:///?<?|/\*+|\*/|\*|#+)\s?|\s*\*/$", re.M)


def texts(path, text):
    """What people read in a file: (line, text) of each comment, docstring and string. Comments that follow each other are one text."""
    if is_python(path, text):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found = [(token.start[0], token.string.strip("rbf\"'")) for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
    else:
        found = [(text.count("\n", 0, match.start()) + 1, match.group().strip('"')) for match in COMMENT.finditer(text)]
    joined = []
    for line, part in found:
        part = MARK.sub("", part)
        if joined and joined[-1][1] == line - 1 and "\n" not in part:
            joined[-1] = (joined[-1][0], line, joined[-1][2] + "\n" + part)
        else:
            joined.append((line, line, part))
    return [(first, part) for first, _, part in joined]


def prose(text):
    """The paragraphs and rows of tables of a Markdown file: (line, text). Blocks of code are not prose."""
    without_code = re.sub(r"```.*?```", lambda block: "\n" * block.group().count("\n"), text, flags=re.DOTALL)
    line, found = 1, []
    for part in re.split(r"(\n(?:\n|(?=[|#-])))", without_code):
        if part.strip():
            found.append((line, part))
        line += part.count("\n")
    return found


def stumbles(files):
    complaints = []
    for path, text in sorted(files.items()):
        for line, part in prose(text) if path.endswith(".md") else texts(path, text):
            flat = " ".join(part.split())
            for pattern, better in STUMBLES.items():
                for match in re.finditer(pattern, flat):
                    around = flat[max(0, match.start() - 30):match.end() + 20]
                    complaints.append(f"{path}:{line} makes a reader stumble ({better}): ...{around}...")
    return complaints


def cpp_functions(text):
    """(first line, lines) of each function of a C or C++ file, by its braces; what lies in a function belongs to it."""
    code = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    code = re.sub(r"(?m)^[ \t]*#[^\n]*", "", code)
    found, depth, since, stack = [], 0, 0, []
    for match in re.finditer(r"[{};]", code):
        if match.group() == "{":
            head = code[since:match.start()].strip()
            is_function = not stack and re.search(r"\)[\s\w&:<>,\-*()\"=]*$", head) and not re.match(r"(namespace|enum|extern)\b", head)
            if is_function:
                stack.append(depth)
                found.append([code.count("\n", 0, match.start()) + 1, 0])
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if stack and stack[-1] == depth:
                stack.pop()
                found[-1][1] = code.count("\n", 0, match.start()) + 2 - found[-1][0]
        since = match.end()
    return [tuple(each) for each in found]


def long_cpp_functions(files):
    return [f"{path}:{line} a function has {lines} lines, {MOST_FUNCTION_LINES} are allowed" for path, text in sorted(files.items())
            for line, lines in cpp_functions(text) if lines > MOST_FUNCTION_LINES]  # fmt: skip


def functions(text):
    """The functions of a Python file, methods and inner ones too."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def long_functions(files):
    complaints = []
    for path, text in sorted(files.items()):
        for function in functions(text):
            lines = function.end_lineno - function.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                complaints.append(f"{path}:{function.lineno} {function.name}() has {lines} lines, {MOST_FUNCTION_LINES} are allowed")
    return complaints


def public(tree):
    """The classes and functions that a Python module shows to others, also those of its public classes."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def docstrings(files):
    """Every public module, class and function of a Python package says what it is."""
    complaints = []
    for path, text in sorted(files.items()):
        tree = ast.parse(text)
        if tree.body and not ast.get_docstring(tree):
            complaints.append(f"{path} has no docstring")
        complaints += [f"{path}:{node.lineno} {node.name} has no docstring" for node in public(tree) if not ast.get_docstring(node)]
    return complaints
