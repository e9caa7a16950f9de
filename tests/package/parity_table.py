#!/usr/bin/env python3
"""Makes docs/reference/parity.md, which compares the functions and options of C++, C, Python and the command line.

  parity_table.py TOOL [--write]    TOOL is the command line tool; without --write the page is compared
  parity_table.py --self-test       checks that a missing name in one of the four is noticed

All names come from the declarations: headers, the Python package, the tool's own help. OTHER_NAMES lists those that
differ between interfaces; a name there that no longer exists is an error."""
import ast
import difflib
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/parity.md"
C_HEADERS = ("headrace.h", "loader_c.h")
# C++ class: prefix in C, class in Python.
CLASSES = {"Completion": ("completion", "ReadFuture"), "VariableResult": ("variable", ""), "Buffer": ("buffer", "Tensor"),
           "LoaderBatch": ("batch", "Batch"), "Crops": ("windows", "Crops"),
           "LoaderSchema": ("schema", "")}
# C++ struct: the struct in C, the callable with these arguments in Python, the commands of the tool.
OPTIONS = {
    "ContextOptions": ("hr_context_options", "Context", "read verify info index bench"),
    "OpenOptions": ("hr_open_options", "open", "read verify info index"),
    "ReadOptions": ("hr_read_options", "Array.read", "read verify"),
    "VariableReadOptions": ("hr_variable_options", "Array.read", "read"),
    "DecodeIndexOptions": ("", "", "index"),
    "FileOptions": ("", "File", ""),
    "WindowOptions": ("hr_window_options", "Loader", ""),
    "SplitOptions": ("hr_loader_options", "Loader", ""),
    "LoaderOptions": ("hr_loader_options", "Loader", ""),
    "FileQueueOptions": ("", "File", "bench"),
}
# C++ name: names in C, Python and the command line, where they differ. "": the same name.
OTHER_NAMES = {
    "Array::open": ("", "open_array", ""),
    "Array::info": ("hr_array_shape", "Array.shape", "info"),
    "ArrayWriter::create": ("", "", "gen"),
    "ByteStore::start": ("hr_store_open_functions", "RangeStore.get_ranges", ""),
    "ByteStore::url": ("hr_store_open_functions", "", ""),
    "ByteStore::cancel": ("hr_store_open_functions", "", ""),
    "ByteStore::list": ("hr_store_open_functions", "", ""),
    "ByteStore::put": ("hr_store_open_functions", "", ""),
    "ByteStore::advice": ("hr_store_open_functions", "", ""),
    "Context::create": ("", "Context", ""),
    "Context::engine_name": ("", "Context.engine", ""),
    "Context::engine_report": ("", "Context.report", ""),
    "Completion::wait": ("", "ReadFuture.result", ""),
    "Completion::wait_for": ("", "ReadFuture.result", ""),
    "Completion::errors": ("", "", "verify"),
    "File::open": ("", "File", ""),
    "File::size_bytes": ("", "File.nbytes", ""),
    "FileQueue::read": ("", "File.pread", "bench"),
    "FileQueue::write": ("", "File.pwrite", "bench"),
    "FileQueue::wait": ("", "IOFuture.get", ""),
    "read_file": ("", "File.read", ""),
    "write_file": ("", "File.write", ""),
    "Loader::create": ("", "Loader", ""),
    "Loader::next": ("", "Loader", ""),
    "Loader::state": ("", "Loader.state_dict", ""),
    "Loader::sample_count": ("", "Loader.samples", ""),
    "LoaderBatch::tensor": ("", "Batch.__getitem__", ""),
    "Loader::tensors": ("hr_loader_tensor", "", ""),
    "Crops::create": ("hr_windows_crop", "", ""),
    "LoaderSchema::digests": ("hr_schema_digest", "", ""),
    "EpochOrder::sample": ("hr_order_epoch", "", ""),
    "EpochOrder::positions": ("hr_order_positions", "", ""),
    "divide_windows": ("hr_windows_divide", "", ""),
    "Group::array": ("", "Group.__getitem__", ""),
    "Group::group": ("", "Group.__getitem__", ""),
    "Group::open": ("", "open_group", ""),
    "Group::info": ("", "Group.attrs", "info"),
    "Array::read_variable": ("", "Array.read", "read"),
    "Store::url": ("", "MemoryStore.url", ""),
    "Store::open": ("", "open", ""),
    "Store::get": ("", "MemoryStore.get", ""),
    "Store::put": ("", "MemoryStore.put", ""),
    "Store::ranges": ("", "", "bench"),
    "split_object_url": ("", "", "bench"),
    "VariableResult::size": ("hr_variable_count", "", ""),
    "build_decode_index": ("", "", "index"),
    "check_decode_index": ("", "", "index --check"),
    "inspect_disk_cache": ("hr_cache_inspect", "", "cache"),
    "clear_disk_cache": ("hr_cache_clear", "", "cache"),
    "list_nodes": ("", "Group.members", "info"),
    "leniencies": ("", "", "read --lenient"),
    "capabilities": ("", "", "info --capabilities"),
    "inspect_system": ("", "", "doctor"),
    "remote_problem_name": ("", "", "doctor"),
    "remote_bound_name": ("", "", "doctor"),
    "parse_selection": ("hr_read_options.selection", "Array.oindex", "read --select"),
    "parse_points": ("hr_read_options.points", "Array.vindex", "read --points"),
    "parse_blocks": ("hr_read_options.blocks", "Array.blocks", "read --blocks"),
    "trace::take": ("", "", "read --trace"),
    "ContextOptions::stored_budget_bytes": ("", "", "--stored-budget"),
    "OpenOptions::consolidated": ("", "", "--no-consolidated"),
    "OpenOptions::index_directory": ("", "", "--index"),
    "FileQueueOptions::depth": ("", "", "--iodepth"),
    "ReadOptions::damage_as_nan": ("", "", "--nan-damage"),
    "ReadOptions::fill_as_nan": ("", "", "--nan-fill"),
    "ReadOptions::missing": ("", "fill=", ""),
    "ReadOptions::native_stream": ("", "stream=", ""),
    "ReadOptions::verify": ("", "", "--whole"),
    "FileOptions::write": ("", "flags=", ""),
    "FileOptions::create": ("", "flags=", ""),
    "FileOptions::truncate": ("", "flags=", ""),
    "FileQueueOptions::path": ("", "via=", ""),
}


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def without_comments(text):
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))
    return re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)  # macros as well


def block_after(text, at):
    """The text between the next opening brace and its closing brace."""
    begin = text.index("{", at)
    depth, end = 0, begin
    while True:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin + 1:end]
        end += 1


def flat(body):
    """The body without the contents of inner braces, each of which ends a statement."""
    out, depth = "", 0
    for letter in body:
        depth += letter == "{"
        if depth == 0:
            out += letter
        if letter == "}" and depth > 0:  # otherwise it closes a namespace
            depth -= 1
            out += ";" if depth == 0 else ""
    return out


def called(statement):
    """The name of the function that a statement declares, or None."""
    if re.search(r"\b(operator|using|friend|explicit|typedef|struct|enum)\b", statement) or "~" in statement:
        return None
    match = re.match(r"[^=(]*?\b(\w+)\s*\(", statement.strip(), re.S)
    return match[1] if match else None


def cpp_names(folder):
    """{header: [names of functions and methods]}, {struct: [fields]}."""
    functions, structs = {}, {}
    for header in sorted(folder.glob("*.h")):
        if header.name in (*C_HEADERS, "version.h", "export.h", "status.h"):
            continue
        text = without_comments(header.read_text())
        names = []
        for match in re.finditer(r"class HEADRACE_API (\w+)\s*\{", text):
            body = flat(re.split(r"\n\s*private:", block_after(text, match.start()))[0].replace("public:", ""))
            for statement in body.split(";"):
                name = called(statement)
                if name and name != match[1] and f"{match[1]}::{name}" not in names:
                    names.append(f"{match[1]}::{name}")
        parts = [(match[1] or "", block_after(text, match.start()))
                 for match in re.finditer(r"^namespace headrace(::\w+)? \{", text, re.M)]
        for prefix, body in parts:
            for statement in flat(body).split(";"):
                name = called(statement.replace("HEADRACE_API", "", 1)) if "HEADRACE_API" in statement else None
                name = f"{prefix[2:]}::{name}" if name and prefix else name
                if name and "class" not in statement and name not in names:
                    names.append(name)
        functions[header.name] = names
        for match in re.finditer(r"struct (\w+Options)\s*\{", text):
            # "T a = x, b = y" declares two fields; template arguments are not fields.
            fields = re.sub(r"<[^;]*>|\([^;]*\)|\{[^;]*\}", "", flat(block_after(text, match.start())))
            declared = [part.partition("=")[0].split() for part in re.split("[;,]", fields)]
            structs[match[1]] = [words[-1] for words in declared if words and re.fullmatch(r"[a-z]\w*", words[-1])]
    return functions, structs


def c_names(header):
    text = without_comments(header.read_text())
    functions = re.findall(r"HR_API[^;(]*?\b(hr_\w+)\s*\(", text)
    structs = {}
    for match in re.finditer(r"typedef struct (hr_\w+_options)\s*\{", text):
        structs[match[1]] = re.findall(r"(\w+);", block_after(text, match.start()))
    return functions, structs


def python_names(folder):
    """Functions, classes and their methods; {callable: its arguments}."""
    init = ast.parse((folder / "__init__.py").read_text())
    public = set(next(ast.literal_eval(node.value) for node in init.body
                      if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"))
    names, arguments, own = set(public), {}, set()

    def note(name, function):
        arguments[name] = {one.arg for one in [*function.args.args, *function.args.kwonlyargs]}
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name in public:
                note(node.name, node)
            if isinstance(node, ast.ClassDef) and node.name in public:
                own.add(node.name)
                for member in node.body:
                    if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                        attributes = [one.attr for one in ast.walk(member) if isinstance(one, ast.Attribute)
                                      and isinstance(one.ctx, ast.Store) and not one.attr.startswith("_")]
                        names.update(f"{node.name}.{attribute}" for attribute in attributes)
                    if isinstance(member, ast.FunctionDef):
                        if not member.name.startswith("_") or member.name == "__getitem__":
                            names.add(f"{node.name}.{member.name}")
                        note(node.name if member.name == "__init__" else f"{node.name}.{member.name}", member)
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_DEFAULTS":
                arguments["Context options"] = {key.value for key in node.value.keys}
    arguments["Context"] = arguments["Context options"]
    # Classes of _core that the package exports unchanged.
    for path in sorted((folder.parent / "src").glob("*.cc")):
        for name, body in re.findall(r'nb::class_<\w+>\(module, "(\w+)"\)(.*?);\n', path.read_text(), re.S):
            if name in public - own:
                methods = re.findall(r'\.def(?:_prop_ro|_ro|_static)?\(\s*"([a-z]\w*)"', body)
                names |= {f"{name}.{method}" for method in methods}
    return names, arguments


def tool_names(tool):
    """{command: its options}."""
    def ask(*arguments):
        return subprocess.run([tool, *arguments, "--help"], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    commands = re.findall(r"^  ([a-z][\w-]*) +\S", re.split(r"^(?:Subcommands|SUBCOMMANDS):", ask(), flags=re.M)[-1], re.M)
    return {command: set(re.findall(r"(--[a-z][\w-]*)", ask(command))) for command in commands}


def listed(names):
    return textwrap.fill(", ".join(f"`{name}`" for name in names) + ".", 138, break_on_hyphens=False) + "\n"


class Table:
    def __init__(self, root, commands):
        self.functions, self.structs = cpp_names(root / "include/headrace")
        self.c, self.c_structs = [], {}
        for header in C_HEADERS:
            functions, structs = c_names(root / "include/headrace" / header)
            self.c += functions
            self.c_structs |= structs
        self.python, self.arguments = python_names(root / "python/headrace")
        self.commands = commands
        self.problems, self.used = [], set()

    def named(self, name, place, there):
        """The name that OTHER_NAMES gives for `place`, which must exist."""
        other = OTHER_NAMES.get(name, ("", "", ""))[("C", "Python", "tool").index(place)]
        if other and not there(other):
            self.problems.append(f"OTHER_NAMES: {name}: {place} has no {other}")
        return other

    def has_command(self, words):
        command, _, option = words.partition(" ")
        return command in self.commands and (not option or option in self.commands[command])

    def row(self, name):
        owner, _, method = name.rpartition("::")
        in_c, in_python = CLASSES.get(owner, (snake(owner), owner))
        fields = {f"{struct}.{field}" for struct, fields in self.c_structs.items() for field in fields}
        c = self.named(name, "C", {*self.c, *fields}.__contains__) or f"hr_{in_c + '_' if in_c else ''}{method}"
        python = self.named(name, "Python", self.python.__contains__) or (f"{in_python}.{method}" if in_python else method)
        tool = self.named(name, "tool", self.has_command) or (method if owner in ("", "Array") else "")
        c, python = c if c in self.c or c in fields else "", python if python in self.python else ""
        self.used |= {c, python}
        return name, c, python, f"headrace {tool}" if tool and self.has_command(tool) else ""

    def option_row(self, struct, field):
        c_struct, function, commands = OPTIONS[struct]
        options = set().union(*(self.commands.get(command, set()) for command in commands.split()))
        arguments = {f"{one}=" for one in self.arguments.get(function, ())}
        name = f"{struct}::{field}"
        c = f"{c_struct}.{field}" if field in self.c_structs.get(c_struct, ()) else ""
        python = self.named(name, "Python", arguments.__contains__) or f"{field}="
        tool = self.named(name, "tool", options.__contains__) or "--" + field.replace("_", "-")
        return (name, c, f"{function}({python})" if python in arguments else "", tool if tool in options else "")

    def page(self):
        def line(cells):
            return "| " + " | ".join(f"`{cell}`" if cell else "" for cell in cells) + " |\n"
        head = "| C++ | C | Python | command line |\n|---|---|---|---|\n"
        out = ("# What each interface has\n\nGenerated by `tests/package/parity_table.py TOOL --write` from the headers, the "
               "Python package and the tool's help; a\ntest compares it. Each row is one feature. An empty cell means that "
               "the interface lacks the feature, or has it only as\npart of another call.\n\n"
               "## Calls\n\n")
        for header, names in self.functions.items():
            if names:
                out += f"### {header}\n\n{head}" + "".join(line(self.row(name)) for name in names) + "\n"
        out += "## Options\n\n" + head
        for struct in OPTIONS:
            if struct not in self.structs:
                self.problems.append(f"OPTIONS: no struct {struct}")
            out += "".join(line(self.option_row(struct, field)) for field in self.structs.get(struct, ()))
        known = {one for names in self.functions.values() for one in names}
        known |= {f"{struct}::{field}" for struct, fields in self.structs.items() for field in fields}
        self.problems += [f"OTHER_NAMES: C++ has no {name}" for name in OTHER_NAMES if name not in known]
        alone = sorted(name for name in self.c if name not in self.used)
        out += "\n## Only in C\n\n" + listed(alone)
        alone = sorted(name for name in self.python if name not in self.used and "." in name)
        return out + "\n## Only in Python\n\n" + listed(alone)


def self_test():
    commands = {"read": {"--dtype"}, "info": {"--capabilities"}}
    table = Table(ROOT, commands)
    page = table.page()
    failures = []
    if not any("gen" in one for one in table.problems):
        failures.append(f"a name that is gone is not noticed: {table.problems}")
    for planted in ("| `Array::read_many` |  | `Array.read_many` |  |", "| `ReadOptions::dtype` | `hr_read_options.dtype` | "
                    "`Array.read(dtype=)` | `--dtype` |", "| `ReadOptions::offset` | `hr_read_options.offset` |",
                    "| `device_names` | `hr_device_names` | `device_names` |", "| `Cancel::ask` | `hr_cancel_ask` | `Cancel.ask` |"):
        if planted not in page:
            failures.append(f"no row {planted}")
    table.c.remove("hr_device_names")
    if table.page() == page:
        failures.append("a function that C loses changes nothing")
    print("\n".join(failures) or "self-test: every row is there, and what is lost is noticed")
    return 1 if failures else 0


def main(arguments):
    if "--self-test" in arguments:
        return self_test()
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    table = Table(ROOT, tool_names(arguments[0]))
    page = table.page()
    if table.problems:
        print("\n".join(table.problems))
        return 1
    if "--write" in arguments:
        PAGE.write_text(page)
        return 0
    shown = PAGE.read_text() if PAGE.exists() else ""
    if shown == page:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not what the interfaces have: parity_table.py {arguments[0]} --write")
    print("".join(difflib.unified_diff(shown.splitlines(True), page.splitlines(True), "page", "interfaces")))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
