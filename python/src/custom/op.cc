// SPDX-License-Identifier: Apache-2.0
#include "custom/op.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "custom/engine_executable.h"
#include "custom/engine_views.h"
#include "values/convert.h"
#include "values/numpy.h"
#include "values/type.h"
#include "xrt/op.h"
#include "xrt/program.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Name, optional, variadic, dtypes.
using Parameter = std::tuple<std::string, bool, bool, std::vector<std::string>>;
// Name, value, required.
using AttributeRow = std::tuple<std::string, nb::object, bool>;

Attribute list_attribute(const std::string& name, nb::handle list) {
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> texts;
  for (nb::handle item : list) {
    if (PyUnicode_Check(item.ptr()) != 0) {
      texts.push_back(nb::cast<std::string>(item));
      continue;
    }
    floats.push_back(nb::cast<float>(item));
    if (PyFloat_Check(item.ptr()) == 0) ints.push_back(nb::cast<std::int64_t>(item));
  }
  if (!texts.empty() && floats.empty()) return texts;
  if (!texts.empty() || floats.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("attribute '{}': a list of numbers or of str is wanted that is not "
                            "empty, so that its kind is known",
                            name));
  }
  if (ints.size() == floats.size()) return ints;
  return floats;
}

Attribute attribute_of(const std::string& name, nb::handle value) {
  if (PyUnicode_Check(value.ptr()) != 0) return nb::cast<std::string>(value);
  if (PyFloat_Check(value.ptr()) != 0) return nb::cast<float>(value);
  if (PyLong_Check(value.ptr()) != 0) return nb::cast<std::int64_t>(value);
  if (PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0) {
    return list_attribute(name, value);
  }
  if (NumPy::get().is_array(value)) {
    Data data = to_data(value, Type(), "attribute '" + name + "'", Access::kRead);
    return data.tensor().clone();
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("attribute '{}' is {}; ops have int, float, str, lists of these, arrays",
                          name, repr_of(value)));
}

std::vector<OpParameter> parameters_of(const std::vector<Parameter>& rows) {
  std::vector<OpParameter> parameters;
  for (const auto& [name, optional, variadic, dtypes] : rows) {
    OpParameter parameter{name, optional, variadic, {}};
    for (const std::string& text : dtypes) {
      const auto dtype = parse_dtype(text);
      if (!dtype) {
        throw Error(ErrorCode::kInvalidArgument, "there is no dtype '" + text + "'");
      }
      parameter.dtypes.push_back(*dtype);
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// A Python function of one op, called with the op's attributes by keyword.
class Callback {
 public:
  Callback(std::string place, nb::object function)
      : place_(std::move(place)), function_(std::move(function)) {}

  nb::object call(const nb::object& arguments, const nb::object& keywords) const {
    PyObject* result = PyObject_Call(function_.get().ptr(), arguments.ptr(), keywords.ptr());
    if (result == nullptr) throw nb::python_error();
    return nb::steal(result);
  }
  const std::string& place() const { return place_; }

 private:
  std::string place_;  // "op my.Scale: its kernel"
  Held function_;
};

// Inputs that are left out at the end are None too. Those of a variadic parameter are not.
void complete(std::vector<nb::object>& arguments, const std::vector<OpParameter>& formal) {
  const bool variadic = !formal.empty() && formal.back().variadic;
  const std::size_t count = formal.size() - (variadic ? 1 : 0);
  while (arguments.size() < count) arguments.push_back(nb::none());
}

nb::dict keywords_of(const Attributes& attributes) {
  nb::dict keywords;
  for (const auto& [name, value] : attributes) {
    keywords[text_object(name)] = python_attribute(value);
  }
  return keywords;
}

nb::object tuple_of(std::vector<nb::object> items) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), items[i].release().ptr());
  }
  return tuple;
}

// A Port stands for its type, (dtype, shape) for a tensor's.
Type type_of(nb::handle given, const std::string& place) {
  if (nb::isinstance<Port>(given)) return nb::cast<const Port&>(given).type;
  const bool is_pair = PyTuple_Check(given.ptr()) != 0 && nb::len(given) == 2;
  if (!is_pair) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("{} must return, per output, one of its inputs or (dtype, shape); it "
                            "returned {}",
                            place, repr_of(given)));
  }
  nb::object dtype_object = given[0];
  DType dtype = DType::kUndefined;
  if (PyUnicode_Check(dtype_object.ptr()) != 0) {
    const auto parsed = parse_dtype(nb::cast<std::string>(dtype_object));
    if (parsed) dtype = *parsed;
  } else if (!dtype_object.is_none()) {
    if (const auto parsed =
            NumPy::get().parse(nb::module_::import_("numpy").attr("dtype")(dtype_object))) {
      dtype = *parsed;
    }
  }
  if (dtype == DType::kUndefined && !dtype_object.is_none()) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("{}: {} is no dtype", place, repr_of(dtype_object)));
  }
  nb::object dims = given[1];
  if (dims.is_none()) return Type::tensor(dtype);
  return Type::tensor(dtype, shape_of(dims));
}

// Results as a list: one result need not be wrapped. `is_one` tells a single one from a tuple.
template <typename IsOne>
std::vector<nb::object> results_of(const nb::object& given, IsOne&& is_one) {
  std::vector<nb::object> results;
  if (is_one(given)) {
    results.push_back(given);
  } else {
    for (nb::handle item : given) results.push_back(nb::borrow(item));
  }
  return results;
}

// A Port per input, None for those that are left out.
nb::object ports_of(const std::vector<OpParameter>& formal, const OpCall& call) {
  std::vector<nb::object> arguments;
  for (std::size_t i = 0; i < call.input_types.size(); ++i) {
    const Type& type = call.input_types[i];
    const bool left_out = type.is_tensor() && type.dtype == DType::kUndefined && !type.shape;
    const std::string& name = formal[std::min(i, formal.size() - 1)].name;
    arguments.push_back(left_out ? nb::none() : nb::cast(Port{name, type, false}));
  }
  complete(arguments, formal);
  return tuple_of(std::move(arguments));
}

std::vector<Type> infer(const Callback& callback, const std::vector<OpParameter>& formal,
                        const OpCall& call) {
  const Gil gil;
  try {
    const nb::object given = callback.call(ports_of(formal, call), keywords_of(call.attributes));
    const auto is_one = [](const nb::object& object) {
      if (nb::isinstance<Port>(object)) return true;
      if (PyTuple_Check(object.ptr()) == 0 && PyList_Check(object.ptr()) == 0) return true;
      // (dtype, shape), not a tuple of two of these.
      return PyTuple_Check(object.ptr()) != 0 && nb::len(object) == 2 &&
             !nb::isinstance<Port>(object[0]) && PyTuple_Check(nb::object(object[0]).ptr()) == 0;
    };
    std::vector<Type> types;
    for (const nb::object& item : results_of(given, is_one)) {
      types.push_back(type_of(item, callback.place()));
    }
    return types;
  } catch (nb::python_error& error) {
    throw_python_error(callback.place(), error);
  } catch (const nb::cast_error&) {
    throw Error(ErrorCode::kInvalidModel,
                callback.place() + " returned a dimension that is no int, str or None");
  }
}

void run(const Callback& callback, const std::vector<OpParameter>& formal,
         const std::vector<OpParameter>& formal_outputs, nb::handle keywords, OpRun& run) {
  const Gil gil;
  try {
    std::vector<nb::object> arguments;
    for (std::size_t i = 0; i < run.input_count(); ++i) {
      if (!run.has_input(i)) {
        arguments.push_back(nb::none());
        continue;
      }
      arguments.push_back(to_python(run.input(i), /*read_only=*/true));  // lent, or a constant
    }
    complete(arguments, formal);
    const nb::object given = callback.call(tuple_of(std::move(arguments)), nb::borrow(keywords));
    const std::vector<nb::object> results = results_of(
        given, [](const nb::object& object) { return PyTuple_Check(object.ptr()) == 0; });
    // Nodes may leave out the last outputs of an op, its kernel need not know.
    const bool variadic = !formal_outputs.empty() && formal_outputs.back().variadic;
    const std::size_t most = variadic ? run.output_count() : formal_outputs.size();
    if (results.size() < run.output_count() || results.size() > most) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("{} returned {} results, {} are wanted", callback.place(),
                              results.size(), run.output_count()));
    }
    for (std::size_t i = 0; i < run.output_count(); ++i) {
      const std::string label = fmt::format("{}: result {}", callback.place(), i);
      const Data data = to_result(results[i], Type(), label);
      const Tensor& made = data.tensor();
      Tensor& target = run.output(i, made.dtype(), made.dims());
      if (made.dtype() == DType::kString) {
        std::copy_n(made.strings(), made.count(), target.strings());
      } else if (made.bytes() > 0) {
        std::memcpy(target.raw(), made.raw(), made.bytes());
      }
    }
  } catch (nb::python_error& error) {
    throw_python_error(callback.place(), error);
  }
}

// The attributes are made to Python objects once per node.
OpKernel make_kernel(const std::shared_ptr<const Callback>& callback,
                     const std::vector<OpParameter>& formal,
                     const std::vector<OpParameter>& formal_outputs, const OpCall& call) {
  const Gil gil;
  const auto keywords = std::make_shared<const Held>(keywords_of(call.attributes));
  return [callback, formal, formal_outputs, keywords](OpRun& context) {
    run(*callback, formal, formal_outputs, keywords->get(), context);
  };
}

// What an op's maker of code returns for one node.
std::string code_of(const Callback& callback, const std::vector<OpParameter>& formal,
                    const OpCall& call) {
  const Gil gil;
  try {
    const nb::object given = callback.call(ports_of(formal, call), keywords_of(call.attributes));
    if (PyUnicode_Check(given.ptr()) == 0) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("{} must return str, it returned a {}", callback.place(),
                              nb::type_name(given.type()).c_str()));
    }
    return nb::cast<std::string>(given);
  } catch (nb::python_error& error) {
    throw_python_error(callback.place(), error);
  }
}

void add_op(std::string domain, std::string name, std::int64_t opset_version, std::string revision,
            const std::vector<Parameter>& inputs, const std::vector<Parameter>& outputs,
            const std::vector<AttributeRow>& attributes, bool deterministic,
            const nb::object& kernel, const nb::object& shape_function, std::string body,
            std::string gradient, std::map<std::string, std::string> lowerings,
            const std::map<std::string, nb::object>& code) {
  OpDefinition op;
  const std::string label = fmt::format("op {}.{} (Python): ", domain, name);
  op.domain = std::move(domain);
  op.name = std::move(name);
  op.opset_version = opset_version;
  op.revision = std::move(revision);
  op.inputs = parameters_of(inputs);
  op.outputs = parameters_of(outputs);
  for (const auto& [attribute, value, required] : attributes) {
    op.attributes.push_back({attribute, attribute_of(attribute, value), required});
  }
  op.deterministic = deterministic;
  op.body = std::move(body);
  op.gradient = std::move(gradient);
  op.lowerings = std::move(lowerings);
  for (const auto& [engine, maker] : code) {
    const auto callback =
        std::make_shared<const Callback>(label + "its code for '" + engine + "'", maker);
    op.code[engine] = [callback, formal = op.inputs](const OpCall& call) {
      return code_of(*callback, formal, call);
    };
  }
  if (!shape_function.is_none()) {
    const auto callback =
        std::make_shared<const Callback>(label + "its shape function", shape_function);
    op.infer = [callback, formal = op.inputs](const OpCall& call) {
      return infer(*callback, formal, call);
    };
  }
  if (!kernel.is_none()) {
    const auto callback = std::make_shared<const Callback>(label + "its kernel", kernel);
    op.create = [callback, formal = op.inputs, outputs = op.outputs](const OpCall& call) {
      return make_kernel(callback, formal, outputs, call);
    };
  }
  register_op(std::move(op));
}

}  // namespace

void bind_op(nb::module_& module) {
  module.def("register_op", add_op, nb::arg("domain"), nb::arg("name"), nb::arg("opset_version"),
             nb::arg("revision"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("attributes"),
             nb::arg("deterministic"), nb::arg("kernel").none(), nb::arg("infer").none(),
             nb::arg("body"), nb::arg("gradient"), nb::arg("lowerings"), nb::arg("code"));
  module.def(
      "register_lowering",
      [](const std::string& domain, const std::string& name, const std::string& engine,
         const std::string& statements) { register_lowering(domain, name, engine, statements); },
      nb::arg("domain"), nb::arg("name"), nb::arg("engine"), nb::arg("statements"),
      "Adds the statements by which an engine takes a registered op.");
  module.def("registered_ops", registered_ops,
             "Qualified names of the ops that were registered in this process.");
  module.def(
      "load_op_library", [](const std::string& file) { return load_op_library(file); },
      nb::arg("file"));
}

}  // namespace xrt::python
