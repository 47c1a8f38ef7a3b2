"""Import rules of docs/architecture.md, checked for every module of the package."""

import ast
import functools
import graphlib
import re
import tomllib

from tests.support import sources
from tests.support.paths import ROOT
from tests.support.sources import PACKAGE

FRONT_ENDS = {"IPython", "bokeh", "ipykernel", "ipywidgets", "jupyter_client", "traitlets"}
DRAWING = {"accel_magic.views", "accel_magic.magics"}
NOTEBOOK_FACING = {
    "magics",
    "views",
    "lab/provisioner.py",
    "magics/lab_kernel.py",
    "results/drawing_server.py",
    "workshop/rehearsal.py",
}
"""Modules for notebooks; everything else has to work without one."""
DRAWS = {"figures.py", "live_item.py", "summary.py", "timeline.py", "timeline_rows.py"}
"""Modules of subsystems that draw; their other modules import them only in functions."""
DISPLAYED = "accel_magic.views.diagnosis"
"""A class whose methods draw; it imports nothing else of views before they are called."""
SHOWS = {
    "__repr__",
    "_repr_html_",
    "_figures",
    "_repr_mimebundle_",
    "_tables",
    "dry_run",
    "figure",
    "html",
    "summary",
    "text",
    "timeline",
    "to_html",
}
"""Methods that draw a result; only they load views, when called."""
LOADERS = {"load_ipython_extension", "unload_ipython_extension"}
NAMES_ROOMS = {"__init__.py", "formats/recognise.py"}
"""Files that name what is loaded on demand: the package, and the recogniser of files."""
TERMINAL = "command_line/"
"""It draws on a terminal, so it may use views, but no front end and no magics."""


def imports(tree, function=""):
    """Yield every import that can be executed, as (module, name of the outermost function, '' at module level)."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((name.name, function) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module, function
            yield from ((f"{node.module}.{name.name}", function) for name in node.names)
        else:
            named = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            yield from imports(node, function or named)


@functools.cache
def everything():
    """Every import in modules that are not notebook-facing, as (importing file, module, function)."""
    places = {path.relative_to(PACKAGE).as_posix(): path for path in sources.modules()}
    return [
        (place, *found)
        for place, path in places.items()
        if NOTEBOOK_FACING.isdisjoint((place, place.split("/")[0]))
        and not (place.startswith("subsystems/") and path.name in DRAWS)
        for found in imports(sources.tree(path))
    ]


def test_the_names_above_exist():
    defined = {
        node.name for path in sources.modules() for node in sources.nodes(path) if isinstance(node, ast.FunctionDef)
    }

    assert [name for name in (*NOTEBOOK_FACING, TERMINAL) if not (PACKAGE / name).exists()] == []
    assert defined >= SHOWS | LOADERS
    assert {module for module in DRAWING if not (PACKAGE / module.partition(".")[2]).is_dir()} == set()


def found(wanted):
    """Imports of the `wanted` modules and their contents."""
    return [one for one in everything() if any(f"{one[1]}.".startswith(f"{module}.") for module in wanted)]


def test_only_notebook_facing_modules_import_a_front_end():
    assert found(FRONT_ENDS) == []


def test_views_are_loaded_only_by_the_command_line_and_by_methods_that_draw_a_result():
    all_of_them = [
        one
        for one in found(DRAWING)
        if not (one[0].startswith(TERMINAL) and one[1].startswith("accel_magic.views")) and DISPLAYED not in one[1]
    ]
    allowed = [one for one in all_of_them if one[2] in (LOADERS if one[0] == "__init__.py" else SHOWS)]

    assert [one for one in all_of_them if one not in allowed] == []
    assert ("results/trace_result.py", "accel_magic.views.figures.trace_figures", "_figures") in allowed


def named_by(node, modules):
    """The modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        return {name.name for name in node.names} & modules.keys()
    if isinstance(node, ast.ImportFrom):
        inside = {name.name: f"{node.module}.{name.name}" for name in node.names}
        return {full if full in modules else node.module for full in inside.values()} & modules.keys()
    return set()


@functools.cache
def graph():
    """Imports within the package, including those in functions and for types: `{module: modules}`."""
    paths = {
        path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for path in sources.modules()
    }
    return {
        module: {
            name
            for node in sources.nodes(path)
            for name in named_by(node, paths)
            if module not in (name, "accel_magic")  # which re-exports names of its modules
        }
        for module, path in paths.items()
    }


def check_no_circle(edges):
    """Raise CycleError, which names the cycle, if there is one."""
    list(graphlib.TopologicalSorter(edges).static_order())


def test_no_modules_import_each_other_in_a_circle():
    """import-linter checks imports between rooms (pyproject.toml); this checks modules within rooms."""
    assert len(graph()) > 400
    assert sum(map(len, graph().values())) > 1500
    check_no_circle(graph())


def test_no_sibling_folders_import_each_other_in_a_circle():
    beside = {}  # by parent folder: the siblings that each folder or module imports
    for module, imported in graph().items():
        for name in imported:
            ours, theirs = module.split("."), name.split(".")
            shared = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            if shared is not None:  # otherwise one contains the other
                edges = beside.setdefault(".".join(ours[:shared]), {})
                edges.setdefault(ours[shared], set()).add(theirs[shared])

    assert {"accel_magic", "accel_magic.gpu", "accel_magic.kernel", "accel_magic.lab"} <= beside.keys()
    for edges in beside.values():
        check_no_circle(edges)


def rooms():
    """The place of each room among the layers of pyproject.toml, 0 for the highest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {name.strip(): at for at, layer in enumerate(layers) for name in layer.split(":")}


def named_in_texts():
    """Texts that are the name of a module, perhaps with an object in it, as (importing file, module, room)."""
    for path in sources.modules():
        place = path.relative_to(PACKAGE)
        for node in sources.nodes(path):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if found := re.fullmatch(r"accel_magic\.(\w+)((?:\.\w+)*)(?::\w+)?", text):
                yield place.as_posix(), f"accel_magic.{found[1]}{found[2]}", found[1]


def test_texts_that_name_a_module_name_one_that_exists_and_no_higher_room_starts_from_below():
    ranks, modules = rooms(), graph()
    named = [one for one in named_in_texts() if one[0] not in NAMES_ROOMS]

    assert len(named) > 10
    assert [one for one in named if one[1] not in modules] == []
    own = {place: ranks.get(place.split("/")[0].removesuffix(".py"), -1) for place, _, _ in named}
    assert [(place, module) for place, module, room in named if ranks[room] < own[place]] == []
