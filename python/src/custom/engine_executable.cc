// SPDX-License-Identifier: Apache-2.0
#include "custom/engine_executable.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/work_scope.h"
#include "engine/handles.h"
#include "errors.h"
#include "values/convert.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {

namespace {

// What one run needs for itself: whatever the executable's create_context() returned.
class PyContext final : public RunContext {
 public:
  explicit PyContext(nb::object object) : object_(std::move(object)) {}
  nb::handle get() const { return object_.get(); }

 private:
  Held object_;
};

std::size_t size_attribute(nb::handle object, const char* name) {
  if (PyObject_HasAttrString(object.type().ptr(), name) == 0 && !nb::hasattr(object, name))
    return 0;
  nb::object value = object.attr(name);  // a property that raises is no missing attribute
  if (value.is_none()) return 0;
  std::size_t size = 0;
  if (!nb::try_cast(value, size)) {
    throw Error(ErrorCode::kEngine,
                fmt::format("{} is {}, not a number from 0 on", name, repr_of(value)));
  }
  return size;
}

// What `print` (PyObject_Str or its like) makes of an object; see text_of().
std::string printed(nb::handle object, PyObject* (*print)(PyObject*)) {
  nb::object text = nb::steal(print(object.ptr()));
  nb::object bytes =
      text.is_valid()
          ? nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"))
          : nb::object();
  if (bytes.is_valid()) {
    return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
  }
  PyErr_Clear();
  return fmt::format("(a {} that cannot be printed)", nb::type_name(object.type()).c_str());
}

// As Python prints an exception that nobody catches, with its causes.
std::string traceback_of(const nb::python_error& error) {
  try {
    const nb::object lines =
        nb::module_::import_("traceback").attr("format_exception")(error.value());
    return printed(nb::str("").attr("join")(lines), PyObject_Str);
  } catch (nb::python_error&) {  // the interpreter may be on its way out
    return {};
  }
}

// Whether data of this dtype and these dimensions may stand where `type` is declared.
bool fits(const Tensor& tensor, const Type& declared) {
  const Type& type = declared.kind == Type::Kind::kOptional ? *declared.element : declared;
  if (!type.is_tensor()) return true;
  if (type.dtype != DType::kUndefined && tensor.dtype() != type.dtype) return false;
  if (!type.shape) return true;
  if (type.shape->size() != tensor.rank()) return false;
  for (std::size_t d = 0; d < tensor.rank(); ++d) {
    const Dim& dim = (*type.shape)[d];
    if (dim.is_known() && dim.value() != tensor.dims()[d]) return false;
  }
  return true;
}

class PyExecutable final : public Executable {
 public:
  PyExecutable(std::string engine, std::string function, std::vector<Port> outputs,
               nb::object object, bool can_load, int num_threads)
      : engine_(std::move(engine)),
        function_(std::move(function)),
        outputs_(std::move(outputs)),
        in_place_(PyCallable_Check(nb::getattr(object, "run", nb::none()).ptr()) != 0),
        has_context_(in_place_ && nb::hasattr(object, "create_context")),
        can_serialize_(can_load && nb::hasattr(object, "serialize")),
        workspace_known_(!nb::getattr(object, "workspace_bytes", nb::none()).is_none()),
        workspace_bytes_(size_attribute(object, "workspace_bytes")),
        weight_bytes_(size_attribute(object, "weight_bytes")),
        num_threads_(nb::hasattr(object, "num_threads")
                         ? static_cast<int>(size_attribute(object, "num_threads"))
                         : num_threads),
        call_(in_place_ ? nb::object(object.attr("run")) : object),
        object_(std::move(object)) {
    for (const Port& port : outputs_) {
      labels_.push_back(
          fmt::format("engine {} (Python): {}, result '{}'", engine_, function_, port.name));
    }
  }

  ExecutableInfo info() const override {
    ExecutableInfo info;
    info.workspace_bytes.reset();
    if (workspace_known_) info.workspace_bytes = workspace_bytes_;
    info.weight_bytes = weight_bytes_;
    info.threads = num_threads_;
    return info;
  }

  std::unique_ptr<RunContext> create_context() const override {
    if (!has_context_) return nullptr;
    return guarded("create_context()", [&]() -> std::unique_ptr<RunContext> {
      return std::make_unique<PyContext>(object_.get().attr("create_context")());
    });
  }

  void run(const RunArgs& args) const override {
    const RunData& data = data_of(args);
    guarded("", [&] {
      if (in_place_) {
        run_in_place(args.context(), data.inputs, data.outputs);
      } else {
        call(data.inputs, data.outputs);
      }
    });
  }

  std::optional<std::string> serialize() const override {
    if (!can_serialize_) return std::nullopt;
    return guarded("serialize()", [&]() -> std::optional<std::string> {
      nb::object blob = object_.get().attr("serialize")();
      if (blob.is_none()) return std::nullopt;
      Py_buffer view;
      if (PyObject_GetBuffer(blob.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
      std::string bytes(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
      PyBuffer_Release(&view);
      return bytes;
    });
  }

 private:
  // With the GIL; what Python raises becomes an error that names engine, function and step.
  template <typename Step>
  std::invoke_result_t<Step> guarded(const char* step, Step&& body) const {
    const Gil gil;
    try {
      return body();
    } catch (nb::python_error& error) {
      throw_engine_error(
          engine_, *step == '\0' ? function_ : fmt::format("{} of {}", step, function_), error);
    }
  }

  // Arrays in, arrays out: whoever writes results into an array of its own.
  void call(std::span<const Data> inputs, std::span<Data> outputs) const {
    nb::object arguments = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PyTuple_SetItem(arguments.ptr(), static_cast<Py_ssize_t>(i),
                      to_python(inputs[i], /*read_only=*/true).release().ptr());
    }
    nb::object results = nb::steal(PyObject_CallObject(call_.get().ptr(), arguments.ptr()));
    if (!results.is_valid()) throw nb::python_error();
    const bool many = nb::isinstance<nb::tuple>(results) ||
                      (nb::isinstance<nb::list>(results) &&
                       !(outputs_.size() == 1 && outputs_[0].type.kind == Type::Kind::kSequence));
    if (!many) results = nb::make_tuple(results);
    if (nb::len(results) != outputs_.size()) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("engine {} (Python): {} returned {} results, {} are wanted", engine_,
                              function_, nb::len(results), outputs_.size()));
    }
    // The arrays stay the engine's: it may use them for the next call.
    for (std::size_t i = 0; i < outputs_.size(); ++i) take(results[i], i, outputs[i], false);
  }

  // run(inputs, outputs): the list `outputs` holds an array to write into, or None for one to set.
  void run_in_place(RunContext* context, std::span<const Data> inputs,
                    std::span<Data> outputs) const {
    nb::object in = nb::steal(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PyList_SetItem(in.ptr(), static_cast<Py_ssize_t>(i),
                     to_python(inputs[i], /*read_only=*/true).release().ptr());
    }
    nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(outputs.size())));
    std::vector<nb::object> given(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // Strings and elements narrower than a byte look different in Python: they are copied over.
      const bool lend = outputs[i].is_tensor() && outputs[i].tensor().dtype() != DType::kString &&
                        !is_packed(outputs[i].tensor().dtype());
      given[i] = lend ? to_python(outputs[i]) : nb::none();
      PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), nb::object(given[i]).release().ptr());
    }
    PyObject* arguments[] = {nullptr, in.ptr(), out.ptr(), nullptr};
    std::size_t count = 2;
    if (has_context_) arguments[++count] = static_cast<PyContext*>(context)->get().ptr();
    nb::object result = nb::steal(PyObject_Vectorcall(
        call_.get().ptr(), arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!result.is_valid()) throw nb::python_error();
    if (!result.is_none()) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("engine {} (Python): {}: run() writes its results into the list it "
                              "is given and returns nothing; it returned a {}",
                              engine_, function_, nb::type_name(result.type()).c_str()));
    }
    if (nb::len(out) != outputs.size()) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("engine {} (Python): {}: run() left {} results, {} are wanted",
                              engine_, function_, nb::len(out), outputs.size()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      PyObject* set = PyList_GetItem(out.ptr(), static_cast<Py_ssize_t>(i));
      if (set == given[i].ptr() && !given[i].is_none()) continue;
      take(set, i, outputs[i], true);
    }
  }

  // The i-th result: into the memory that is wanted, or as it is where the runtime brought none.
  void take(nb::handle object, std::size_t i, Data& output, bool given_away) const {
    const Port& port = outputs_[i];
    Data result = to_result(object, port.type, labels_[i]);
    const bool wanted = output.is_tensor();
    const auto fail = [&](const std::string& expected) {
      throw Error(
          ErrorCode::kEngine,
          fmt::format("{} is {}, {} is wanted", labels_[i],
                      result.is_tensor() ? fmt::format("{}{}", to_string(result.tensor().dtype()),
                                                       to_string(result.tensor().dims()))
                                         : std::string("no tensor"),
                      expected));
    };
    if (!wanted) {
      if (result.is_tensor()) {
        const Tensor& made = result.tensor();
        if (!fits(made, port.type)) fail(to_string(port.type));
        // The engine's own memory is on no account. What has no room beside the others ends the run
        // here, before the next node makes more of it.
        if (const auto account = WorkScope::charge(made.bytes(), made.dtype(), made.dims())) {
          account->bytes -= static_cast<std::int64_t>(made.bytes());
        }
      }
      output =
          result.is_tensor() && !given_away ? Data(result.tensor().clone()) : std::move(result);
      return;
    }
    Tensor& target = output.tensor();
    if (!result.is_tensor() || result.tensor().dtype() != target.dtype() ||
        result.tensor().dims() != target.dims()) {
      fail(fmt::format("{}{}", to_string(target.dtype()), to_string(target.dims())));
    }
    if (target.dtype() == DType::kString) {
      std::copy_n(result.tensor().strings(), target.count(), target.strings());
    } else if (target.bytes() > 0) {
      std::memcpy(target.raw(), result.tensor().raw(), target.bytes());
    }
  }

  std::string engine_, function_;
  std::vector<Port> outputs_;
  std::vector<std::string> labels_;
  bool in_place_, has_context_, can_serialize_, workspace_known_;
  std::size_t workspace_bytes_, weight_bytes_;
  int num_threads_;
  Held call_, object_;
};

}  // namespace

void throw_engine_error(const std::string& engine, const std::string& what,
                        nb::python_error& error) {
  throw_python_error(fmt::format("engine {} (Python): {}", engine, what), error);
}

void throw_python_error(const std::string& place, nb::python_error& error) {
  const std::string text = text_of(error.value());
  if (const auto code = code_of(error.value())) {  // raised on purpose: its message says it all
    throw Error(*code, fmt::format("{}: {}", place, text));
  }
  // One line for those who only want to know, then where it happened.
  const std::string type = nb::type_name(error.type()).c_str();
  const std::string traceback = traceback_of(error);
  // Whoever pressed Ctrl-C means the program: the signal is raised again for where Python goes on.
  if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterruptEx(SIGINT);
  throw Error(ErrorCode::kEngine, fmt::format("{}: {}: {}\n{}", place, type, text, traceback));
}

std::string text_of(nb::handle object) { return printed(object, PyObject_Str); }

std::string repr_of(nb::handle object) { return printed(object, PyObject_Repr); }

Held::~Held() {
  with_gil_if_up([&] { Py_DECREF(object_); });
}

std::shared_ptr<const Executable> make_executable(const std::string& engine,
                                                  const std::string& method,
                                                  const std::string& function,
                                                  std::vector<Port> outputs, nb::object object,
                                                  bool can_load, int num_threads) {
  if (PyCallable_Check(object.ptr()) == 0 &&
      PyCallable_Check(nb::getattr(object, "run", nb::none()).ptr()) == 0) {
    throw Error(
        ErrorCode::kEngine,
        fmt::format("engine {} (Python): {} of {} must return a callable, or an object with "
                    "a method run(), not {}",
                    engine, method, function, repr_of(object)));
  }
  return std::make_shared<PyExecutable>(engine, function, std::move(outputs), std::move(object),
                                        can_load, num_threads);
}

}  // namespace xrt::python
