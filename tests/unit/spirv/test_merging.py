"""Functions that another module imports and the device has as instructions or built-in variables."""

import pytest

from accel_magic.spirv.intrinsics import INTRINSICS
from accel_magic.spirv.merging import BUILT_IN, LINKAGE, merge
from accel_magic.spirv.spirv_module import SpirvFunction, SpirvModule, made, words_of
from tests.support import spirv_modules

pytestmark = pytest.mark.component

IMPORT, EXPORT = 1, 0
LANE, SUB_GROUP = 41, 40


def importing(name):
    """A module that exports `number`, which returns what the function `name` does."""
    module = SpirvModule.read(spirv_modules.by_llvm())
    for section in ("entry point", "execution mode", "debug", "annotation"):
        module.sections[section].clear()
    module.functions.clear()
    word = module.integer(32)
    type_ = module.type("TypeFunction", word)
    taken, given, label, found = (module.new_id() for _ in range(4))
    module.add("annotation", "Decorate", taken, LINKAGE, *words_of(name), IMPORT)
    module.add("annotation", "Decorate", given, LINKAGE, *words_of("number"), EXPORT)
    module.functions += [
        SpirvFunction([made("Function", word, taken, 0, type_), made("FunctionEnd")]),
        SpirvFunction(
            [
                made("Function", word, given, 0, type_),
                made("Label", label),
                made("FunctionCall", word, found, taken),
                made("ReturnValue", found),
                made("FunctionEnd"),
            ]
        ),
    ]
    return module


@pytest.mark.parametrize(
    ("name", "built_in"), [("_Z22get_sub_group_local_idv", LANE), ("_Z16get_sub_group_idv", SUB_GROUP)]
)
@pytest.mark.parametrize("is_there", [False, True])
def test_a_built_in_variable_is_read_and_listed_whether_it_was_there_or_not(name, built_in, is_there):
    into = SpirvModule.read(spirv_modules.by_llvm())
    own = into.built_in(built_in, 32) if is_there else None

    merged = merge(into, importing(name), INTRINSICS)

    (variable,) = [place for place, words in into.decorated(BUILT_IN).items() if words[0] == built_in]
    assert own in {None, variable}
    assert variable in merged.variables
    (function,) = [one for one in into.functions if one.id == merged.functions["number"]]
    (load,) = [one for one in function.code if one.name == "Load"]
    assert load.words[2] == variable
    assert SpirvModule.read(into.write()).decorated(BUILT_IN) == into.decorated(BUILT_IN)
