"""The states of a model as inputs and outputs: a compiler for the NPU passes them to OpenVINO's plugin in this form.

The plugin recognizes them by prefixes of their names. Each request keeps its states in its own memory of the NPU, which
is input and output at once; `query_state` returns it, and `reset_state` fills it with zeros, as does a new request.
"""

from __future__ import annotations

from typing import Final

import openvino as ov
from openvino import opset13 as ops
from openvino.passes import ConstantFolding, Manager

from accel_magic.lab.models.unsupported import UnsupportedError

READ_PREFIX: Final = "vpux_ie_read_value_"
ASSIGN_PREFIX: Final = "vpux_ie_assign_"
LONGEST_NAME: Final = 255 - len(READ_PREFIX)
"""Bytes of a variable's name: the limit of the interface, without the prefix."""


def states_as_arguments(model: ov.Model) -> None:
    """Replace the variables of a model by inputs and outputs, which are added after those that it has.

    Raises:
        UnsupportedError: A variable has a dynamic shape or a name that is too long, or it does not begin with zeros.

    """
    variables = model.get_variables()
    if not variables:
        return
    _require_zeros(model)
    operations = model.get_ops()
    for variable in variables:
        information = variable.get_info()
        name, shape = information.variable_id, information.data_shape
        if len(name.encode()) > LONGEST_NAME:
            raise UnsupportedError(f"the name of the variable {name} is too long: at most {LONGEST_NAME} bytes")
        if shape.is_dynamic:
            raise UnsupportedError(
                f"the variable {name} has the dynamic shape {shape}: give the model static shapes with model.reshape()"
            )
        own = [each for each in operations if each.get_attributes().get("variable_id") == name]
        given = ops.parameter(shape, information.data_type, name=READ_PREFIX + name)
        for read in own:
            if read.get_type_name() == "ReadValue":
                read.output(0).replace(given.output(0))
        # Only now, because what is assigned may be what was read. A variable that is never assigned keeps its value.
        assigned = [each for each in own if each.get_type_name() == "Assign"]
        source = assigned[0].input_value(0) if assigned else given.output(0)
        for assign in assigned:
            model.remove_sink(assign)
        model.remove_variable(variable)
        model.add_parameters([given])
        model.add_results([ops.result(source, name=ASSIGN_PREFIX + name)])
    model.validate_nodes_and_infer_types()


def _require_zeros(model: ov.Model) -> None:
    """Raise an error unless all variables begin with zeros, which is all that the plugin can set."""
    copy = model.clone()
    reads = [each for each in copy.get_ops() if each.get_type_name() == "ReadValue" and each.get_input_size()]
    if not reads:
        return
    values = [ops.result(read.input_value(0)) for read in reads]
    first, folding = ov.Model(values, [], copy.get_parameters(), copy.get_variables()), Manager()
    folding.register_pass(ConstantFolding())
    folding.run_passes(first)
    for read, value in zip(reads, values, strict=True):
        node = value.input_value(0).get_node()
        if node.get_type_name() != "Constant" or node.get_data().any():
            name = read.get_attributes()["variable_id"]
            raise UnsupportedError(
                f"the variable {name} does not begin with zeros, the only value to which OpenVINO's NPU plugin resets "
                "states: remove the initial value, and set the state of each request"
            )
