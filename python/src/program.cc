// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/message.h"
#include "base/work_scope.h"
#include "device/caller_stream.h"
#include "gil.h"
#include "graph.h"
#include "options.h"
#include "report/html.h"
#include "request.h"
#include "values/convert.h"
#include "values/numpy.h"
#include "values/type.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

std::string describe(const Port& port) {
  return fmt::format("<{}: {}{}>", port.name, to_string(port.type),
                     port.has_default ? ", has a default" : "");
}

std::string names_of(const std::vector<Port>& ports) {
  std::string names;
  for (const Port& port : ports) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", port.name);
  }
  return names.empty() ? "none" : shortened(names);
}

// A program with what Python needs at hand for each call.
class PyProgram {
 public:
  PyProgram(std::shared_ptr<Program> program, const ProgramOptions& options)
      : program_(std::move(program)),
        device_(options.device),
        most_bytes_(options.max_memory_bytes) {
    for (const Port& port : program_->inputs()) {
      input_labels_.push_back(fmt::format("input '{}'", port.name));
      input_access_.push_back(Access::kRead);
      for (const auto& alias : options.aliases) {
        if (alias.first == port.name) input_access_.back() = Access::kWrite;
      }
    }
    for (const Port& port : program_->outputs()) {
      output_labels_.push_back(fmt::format("output '{}'", port.name));
      output_keys_.push_back(nb::str(port.name.data(), port.name.size()));
    }
  }
  PyProgram(const PyProgram&) = delete;
  PyProgram& operator=(const PyProgram&) = delete;
  ~PyProgram() {
    // An engine's thread may be about to drop a Python object; it must not wait for us.
    ReleasedGil release;
    program_.reset();
  }

  const std::vector<Port>& inputs() const { return program_->inputs(); }
  const std::vector<Port>& outputs() const { return program_->outputs(); }
  Program& program() const { return *program_; }

  nb::object call(const nb::args& arguments, const nb::kwargs& keywords) {
    Call call;
    set_inputs(call, arguments);
    for (auto [key, value] : keywords) {
      const auto name = nb::cast<std::string>(key);
      if (name == "out") {
        call.out = nb::borrow(value);
      } else if (name == "timeout" && !has_input(name)) {
        call.timeout = nb::borrow(value);
      } else {
        set_input(call.inputs, call.given, input_index(name), value, call.streams);
      }
    }
    check_given(call.given);
    Outputs outputs = prepare_outputs(call.out, call.streams);
    execute(call.inputs, outputs, call.streams, run_options(Results::kLikeInputs, call.timeout));
    return in_order(outputs);
  }

  // `self`: this object, which lives as long as the request.
  nb::object submit(const nb::object& self, const nb::args& arguments, const nb::kwargs& keywords) {
    Call call;
    const bool by_name = arguments.size() == 1 && nb::isinstance<nb::dict>(arguments[0]);
    RunOptions options;
    if (by_name) {
      set_inputs(call, nb::cast<nb::dict>(arguments[0]));
    } else {
      set_inputs(call, arguments);
    }
    for (auto [key, value] : keywords) {
      const auto name = nb::cast<std::string>(key);
      if (name == "out") {
        call.out = nb::borrow(value);
      } else if (!by_name && has_input(name)) {
        set_input(call.inputs, call.given, input_index(name), value, call.streams);
      } else if (name == "timeout") {
        call.timeout = nb::borrow(value);
      } else if (name == "device") {
        call.results = results_on(nb::cast<std::optional<std::string>>(value));
      } else if (name == "wait") {
        options.wait_for_room = nb::cast<bool>(value);
      } else {
        set_input(call.inputs, call.given, input_index(name), value, call.streams);
      }
    }
    check_given(call.given);
    auto outputs = std::make_shared<Outputs>(prepare_outputs(call.out, call.streams));
    const bool wait_for_room = options.wait_for_room;
    options = run_options(call.results, call.timeout);
    options.wait_for_room = wait_for_room;
    const auto submit = [&] {
      call.streams.wait();
      return program_->submit(call.inputs, options, outputs->data);
    };
    return make_request(submit,
                        [self, this, by_name, outputs,
                         inputs = call.inputs](std::vector<Data> computed) -> nb::object {
                          outputs->data = std::move(computed);
                          check_outputs(inputs, *outputs);
                          return by_name ? nb::object(named(*outputs)) : in_order(*outputs);
                        });
  }

  nb::dict run(const nb::dict& inputs, const nb::object& out,
               const std::optional<std::string>& device, const nb::object& timeout) {
    const RunOptions wanted = run_options(results_on(device), timeout);
    Call call;
    set_inputs(call, inputs);
    check_given(call.given);
    Outputs outputs = prepare_outputs(out, call.streams);
    execute(call.inputs, outputs, call.streams, wanted);
    return named(outputs);
  }

  nb::list call_tensors(const nb::list& arguments, nb::handle kind) {
    const std::vector<Port>& ports = program_->inputs();
    const std::size_t count = nb::len(arguments);
    if (count != ports.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} tensors were given; the program has {} inputs: {}", count,
                              ports.size(), names_of(ports)));
    }
    const dlpack::ExchangeApi* api = PyType_Check(kind.ptr())
                                         ? exchange_api(reinterpret_cast<PyTypeObject*>(kind.ptr()))
                                         : nullptr;
    std::vector<Data> inputs(count);
    ProducerStreams streams;
    for (std::size_t i = 0; i < count; ++i) {
      const Access access =
          input_access_[i] == Access::kWrite ? Access::kWrite : Access::kReadDetached;
      inputs[i] = taken(arguments[i], i, access, streams);
    }
    Outputs outputs;
    // What becomes a tensor of the framework is used on the framework's stream.
    execute(inputs, outputs, streams, {}, api != nullptr ? streams.callers() : std::nullopt);
    nb::list results;
    for (std::size_t i = 0; i < outputs.data.size(); ++i) {
      const Data& data = outputs.data[i];
      const bool is_lent = api != nullptr && data.is_tensor();
      results.append(is_lent ? to_framework(data, *api) : to_python(data, output_type(i)));
    }
    return results;
  }

 private:
  struct Outputs {
    std::vector<Data> data;
    std::vector<nb::object> objects;     // the caller's own, where given
    std::vector<const void*> addresses;  // of the memory it lent
  };

  // What one call brings.
  struct Call {
    std::vector<Data> inputs;
    std::vector<bool> given;
    ProducerStreams streams;
    nb::object out;
    nb::object timeout = nb::none();
    Results results = Results::kLikeInputs;
  };

  std::size_t ports_out() const { return output_keys_.size(); }

  void begin(Call& call) const {
    call.inputs.resize(program_->inputs().size());
    call.given.resize(call.inputs.size());
  }

  void set_inputs(Call& call, const nb::args& arguments) {
    begin(call);
    if (arguments.size() > call.inputs.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} arrays were given; the program has {} inputs: {}",
                              arguments.size(), call.inputs.size(), names_of(program_->inputs())));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      set_input(call.inputs, call.given, i, arguments[i], call.streams);
    }
  }

  void set_inputs(Call& call, const nb::dict& by_name) {
    begin(call);
    for (auto [key, value] : by_name) {
      set_input(call.inputs, call.given, input_index(name_of(key, "inputs")), value, call.streams);
    }
  }

  // As a call gives them: one, or a tuple.
  nb::object in_order(const Outputs& outputs) const {
    if (ports_out() == 1) return result(outputs, 0);
    nb::object results = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(ports_out())));
    for (std::size_t i = 0; i < ports_out(); ++i) {
      PyTuple_SetItem(results.ptr(), static_cast<Py_ssize_t>(i),
                      result(outputs, i).release().ptr());
    }
    return results;
  }

  nb::dict named(const Outputs& outputs) const {
    nb::dict results;
    for (std::size_t i = 0; i < ports_out(); ++i) results[output_keys_[i]] = result(outputs, i);
    return results;
  }

  bool has_input(const std::string& name) const {
    const std::vector<Port>& ports = program_->inputs();
    return std::any_of(ports.begin(), ports.end(),
                       [&](const Port& port) { return port.name == name; });
  }

  static RunOptions run_options(Results results, const nb::object& timeout) {
    if (timeout.is_none()) return {.results = results};
    double seconds = 0;
    if (!nb::try_cast(timeout, seconds) || !(seconds > 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("timeout is {}; a positive number of seconds or None is wanted",
                              nb::repr(timeout).c_str()));
    }
    return {.results = results, .timeout_s = seconds};
  }

  // A key of the caller's dictionary. Bytes that are no UTF-8 are in no name that a program has.
  static std::string name_of(nb::handle key, std::string_view of) {
    std::string name;
    if (nb::try_cast(key, name)) return name;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the names of {} are str in UTF-8, not {}: {}", of,
                            nb::type_name(key.type()).c_str(), nb::repr(key).c_str()));
  }

  std::size_t input_index(const std::string& name) const {
    const std::vector<Port>& ports = program_->inputs();
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].name == name) return i;
    }
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the program has no input '{}'; its inputs are {}", name, names_of(ports)));
  }

  void set_input(std::vector<Data>& inputs, std::vector<bool>& given, std::size_t i,
                 nb::handle object, ProducerStreams& streams) {
    const Port& port = program_->inputs()[i];
    if (given[i]) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} was given twice", input_labels_[i]));
    }
    given[i] = true;
    if (port.has_default && object.is_none()) return;
    inputs[i] = taken(object, i, input_access_[i], streams);
  }

  // What has to be copied of a caller's array is in the bound on memory, too.
  Data taken(nb::handle object, std::size_t i, Access access, ProducerStreams& streams) const {
    const Type& type = program_->inputs()[i].type;
    if (most_bytes_ == 0) return to_data(object, type, input_labels_[i], access, &streams);
    const WorkScope scope(std::make_shared<MemoryAccount>(), most_bytes_);
    try {
      return to_data(object, type, input_labels_[i], access, &streams);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResource) throw;
      throw Error(error.code(),
                  fmt::format("{}, to be copied: {}", input_labels_[i], error.what()));
    }
  }

  void check_given(const std::vector<bool>& given) const {
    const std::vector<Port>& ports = program_->inputs();
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i] && !ports[i].has_default) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{} ({}) was not given; the inputs are {}", input_labels_[i],
                                to_string(ports[i].type), names_of(ports)));
      }
    }
  }

  Outputs prepare_outputs(const nb::object& out, ProducerStreams& streams) {
    Outputs outputs;
    if (!out.is_valid() || out.is_none()) return outputs;
    const std::vector<Port>& ports = program_->outputs();
    outputs.data.resize(ports.size());
    outputs.objects.resize(ports.size());
    outputs.addresses.resize(ports.size());
    const auto set = [&](std::size_t i, nb::handle object) {
      if (object.is_none()) return;
      if (ports[i].type.kind != Type::Kind::kTensor) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a value of type {} cannot be written in place",
                                output_labels_[i], to_string(ports[i].type)));
      }
      outputs.data[i] = to_data(object, ports[i].type, output_labels_[i], Access::kWrite, &streams);
      outputs.objects[i] = nb::borrow(object);
      outputs.addresses[i] = outputs.data[i].tensor().raw();
    };
    if (nb::isinstance<nb::dict>(out)) {
      for (auto [key, value] : nb::cast<nb::dict>(out)) {
        const std::string name = name_of(key, "outputs");
        std::size_t i = 0;
        while (i < ports.size() && ports[i].name != name) ++i;
        if (i == ports.size()) {
          throw Error(ErrorCode::kInvalidArgument,
                      fmt::format("the program has no output '{}'; its outputs are {}", name,
                                  names_of(ports)));
        }
        set(i, value);
      }
    } else if (nb::isinstance<nb::list>(out) || nb::isinstance<nb::tuple>(out)) {
      if (nb::len(out) != ports.size()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("out: {} entries were given for {} outputs: {}", nb::len(out),
                                ports.size(), names_of(ports)));
      }
      for (std::size_t i = 0; i < ports.size(); ++i) set(i, out[i]);
    } else if (ports.size() == 1) {
      set(0, out);
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("out must be a dict, or a list with one entry per output ({})",
                              names_of(ports)));
    }
    return outputs;
  }

  Results results_on(const std::optional<std::string>& device) const {
    if (!device) return Results::kLikeInputs;
    const std::optional<Device> wanted = device_of(*device);
    if (wanted && wanted->is_host()) return Results::kHost;
    if (wanted && wanted == device_of(device_)) return Results::kDevice;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("results on '{}' were asked for; they can lie on cpu{}{}", *device,
                            device_ == "cpu" ? "" : " or on the program's device, ",
                            device_ == "cpu" ? "" : device_));
  }

  // With `callers`, a device and a stream of it, results may be written behind what is queued
  // there.
  void execute(const std::vector<Data>& inputs, Outputs& outputs, const ProducerStreams& streams,
               const RunOptions& options,
               std::optional<std::pair<int, void*>> callers = std::nullopt) {
    {
      ReleasedGil release;
      std::optional<CallerStream> stream;
      if (callers) {
        stream.emplace(callers->first, callers->second);
      } else {
        streams.wait();
      }
      program_->run(inputs, outputs.data, options);
    }
    check_outputs(inputs, outputs);
  }

  void check_outputs(const std::vector<Data>& inputs, Outputs& outputs) const {
    for (std::size_t i = 0; i < outputs.addresses.size(); ++i) {
      const void* wanted = outputs.addresses[i];
      if (wanted == nullptr) continue;
      const Data& data = outputs.data[i];
      if (data.is_tensor() && data.tensor().raw() == wanted) continue;
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: the array given in out= does not fit the result, {}", output_labels_[i],
                      data.is_tensor() ? fmt::format("{}{}", to_string(data.tensor().dtype()),
                                                     to_string(data.tensor().dims()))
                                       : "which is no tensor"));
    }
    // A result that is an input handed through gets memory of its own: writing to it must not
    // change what the caller passed. Aliased inputs are the exception, and asked for.
    for (std::size_t o = 0; o < outputs.data.size(); ++o) {
      Data& data = outputs.data[o];
      if (o < outputs.addresses.size() && outputs.addresses[o] != nullptr) continue;
      if (!data.is_tensor() || data.tensor().bytes() == 0) continue;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (input_access_[i] == Access::kRead && inputs[i].is_tensor() &&
            inputs[i].tensor().raw() == data.tensor().raw()) {
          data = data.tensor().clone();
          break;
        }
      }
    }
  }

  nb::object result(const Outputs& outputs, std::size_t i) const {
    if (i < outputs.objects.size() && outputs.objects[i].is_valid()) return outputs.objects[i];
    return to_python(outputs.data[i], output_type(i));
  }

  const Type& output_type(std::size_t i) const { return program_->outputs()[i].type; }

  std::shared_ptr<Program> program_;
  std::string device_;
  std::size_t most_bytes_;  // 0: no bound was given
  std::vector<std::string> input_labels_, output_labels_;
  std::vector<Access> input_access_;
  std::vector<nb::str> output_keys_;
};

// `source` is a path (str), the bytes of a model or a Graph; `given` is what set_options() takes.
PyProgram* load(const nb::object& source, const nb::dict& given) {
  ProgramOptions options;
  set_options(options, given);

  std::shared_ptr<Program> program;
  if (PyUnicode_Check(source.ptr())) {
    nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(source.ptr()));
    if (!encoded.is_valid()) throw nb::python_error();
    const std::string path(PyBytes_AsString(encoded.ptr()),
                           static_cast<std::size_t>(PyBytes_Size(encoded.ptr())));
    ReleasedGil release;
    program = Program::load(path, options);
  } else if (const Graph* graph = as_graph(source)) {
    Graph copy = *graph;
    ReleasedGil release;
    program = Program::compile(std::move(copy), options);
  } else {
    Py_buffer view;
    if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
    const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> holder(&view, PyBuffer_Release);
    const std::string_view bytes(static_cast<const char*>(view.buf),
                                 static_cast<std::size_t>(view.len));
    ReleasedGil release;
    program = Program::load_bytes(bytes, options);
  }
  return new PyProgram(std::move(program), options);
}

nb::object explain(const PyProgram& self) {
  Explanation explanation;
  {
    ReleasedGil release;
    explanation = self.program().explain();
  }
  return explanation_object(std::move(explanation), self.inputs(), self.outputs());
}

}  // namespace

nb::object explanation_object(Explanation explanation, std::vector<Port> inputs,
                              std::vector<Port> outputs) {
  const std::string json = explanation.to_json();
  // The page is made when it is asked for, of the plan explained here.
  nb::object page =
      nb::cpp_function([explanation = std::move(explanation), inputs = std::move(inputs),
                        outputs = std::move(outputs)](const std::string& title) {
        return report::html(explanation, inputs, outputs, title);
      });
  nb::object type = nb::module_::import_("openxrt.explanation").attr("Explanation");
  return type(nb::str(json.data(), json.size()), page);
}

Program& program_of(nb::handle object) {
  if (!nb::isinstance<PyProgram>(object)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an openxrt.Program is wanted, not {}",
                                                         nb::type_name(object.type()).c_str()));
  }
  return nb::cast<PyProgram&>(object).program();
}

void bind_program(nb::module_& module) {
  nb::class_<Port>(module, "Port", "A named input or output of a program.")
      .def_prop_ro("name", [](const Port& port) { return port.name; })
      .def_prop_ro(
          "type", [](const Port& port) { return port.type; }, "Its Type.")
      .def_prop_ro(
          "dtype", [](const Port& port) { return dtype_object(port.type); },
          "type.dtype: \"float32\", \"bfloat16\", \"string\".")
      .def_prop_ro(
          "shape", [](const Port& port) { return shape_object(port.type); },
          "type.shape: one entry per dimension, an int, a str (symbol) or None (unknown).")
      .def_ro("has_default", &Port::has_default,
              "True for an input that the model initialises: it may be left out.")
      .def("__repr__", describe);

  nb::class_<LaunchEvent>(module, "LaunchEvent", "One launch of one run.")
      .def_ro("function", &LaunchEvent::function, "Name of the function launched.")
      .def_ro("engine", &LaunchEvent::engine, "The engine that ran it.")
      .def_ro("start_us", &LaunchEvent::start_us, "Microseconds since the program was loaded.")
      .def_ro("duration_us", &LaunchEvent::duration_us, "Microseconds.")
      .def_ro("thread", &LaunchEvent::thread)
      .def_ro("run", &LaunchEvent::run, "Which run of the program, counted from 0.")
      .def("__repr__", [](const LaunchEvent& event) {
        return fmt::format("<{} on {}: {:.1f} us>", event.function, event.engine,
                           event.duration_us);
      });

  nb::class_<PyProgram>(module, "Program",
                        "A graph placed on engines, compiled and ready to run. Made by "
                        "openxrt.load(). Calls may come "
                        "from many threads at once; the GIL is released while engines work.")
      .def(
          "__call__", &PyProgram::call,
          "program(*arrays, out=None, timeout=None, **named) -> array or tuple\n\n"
          "Runs with inputs in graph order (and by name, where the name is a Python identifier). "
          "Returns one array, or a tuple in graph order where there are several outputs.\n"
          "Inputs: NumPy arrays (ml_dtypes too), anything with __dlpack__ on the CPU or on the "
          "program's GPU, buffers, numbers, lists; a list for a sequence, None for an empty "
          "optional. Dense memory is used in place, never copied.\n"
          "Results are NumPy arrays, lists of a sequence and dicts of a map; with an input on\n"
          "the GPU they are DeviceArrays there.\n"
          "timeout: seconds; a run that takes longer is ResourceError. An input of that name comes "
          "first.\n"
          "Raises InvalidArgument naming the input for a wrong count, dtype or shape.")
      .def("run", &PyProgram::run, nb::arg("inputs"), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("device").none() = nb::none(), nb::arg("timeout").none() = nb::none(),
           "run(inputs: dict[str, array], *, out=None, device=None, timeout=None)"
           " -> dict[str, array]\n\n"
           "Runs with inputs by name and returns every output by name.\n"
           "out: a dict (or a list in graph order) of writable C-contiguous arrays that receive "
           "the results; one that does not fit is InvalidArgument.\n"
           "device: where other results lie: \"cpu\" (NumPy arrays) or the program's GPU "
           "(DeviceArrays); by default on the GPU if an input does.\n"
           "timeout: seconds; a run that takes longer is ResourceError, and the program works on. "
           "None: the option deadline_s, which also keeps loops from engines that cannot end "
           "them.")
      .def(
          "submit",
          [](const nb::object& self, const nb::args& arguments, const nb::kwargs& keywords) {
            return nb::cast<PyProgram&>(self).submit(self, arguments, keywords);
          },
          nb::sig(
              "def submit(self, *arrays: object, out: object = None, device: str | None = None, "
              "timeout: float | None = None, wait: bool = True, **named: object) -> object"),
          "submit(*arrays, out=None, device=None, timeout=None, wait=True, **named) -> Request\n\n"
          "Hands a run over and returns an openxrt.Request, a concurrent.futures.Future that can "
          "be "
          "awaited: its result is what program(...) returns. submit(dict) has the result of "
          "run(dict).\n"
          "Runs begin in the order of their submission; the option `streams` says how many take "
          "place at once. Arrays are read where they lie and must not change before the end.\n"
          "wait: where `max_queue` runs wait already, wait for room; False: that is "
          "ResourceError.\n"
          "timeout: seconds from the beginning of the run. An input of the name of one of these "
          "comes first, but for `out`.\n"
          "Errors of the arguments are raised here, those of the run by result().")
      .def_prop_ro(
          "streams", [](const PyProgram& self) { return self.program().streams(); },
          "Submitted runs that take place at once.")
      .def(
          "run",
          [](const PyProgram&, const nb::args&, const nb::kwargs&) -> nb::dict {
            throw Error(ErrorCode::kInvalidArgument,
                        "run() takes a dict from the names of inputs to arrays, then out=, "
                        "device= and timeout=. What ONNX Runtime writes as run(None, feed) is "
                        "run(feed), and a "
                        "dict is returned; arrays without names are given as program(x)");
          },
          nb::sig("def run(self, *args: object, **kwargs: object) -> dict"),
          "Other arguments are InvalidArgument.")
      .def("__reduce__",
           [](const PyProgram&) -> nb::object {
             throw nb::type_error(
                 "a Program cannot be pickled or copied: threads may share it; another process "
                 "loads it itself, with the same cache_dir, and compiles nothing again");
           })
      .def(
          "call_tensors", &PyProgram::call_tensors, nb::arg("tensors"), nb::arg("kind"),
          "call_tensors(tensors: list, type) -> list\n\n"
          "Runs with one value per input and gives one per output: where `type` has DLPack's table "
          "of C functions (torch.Tensor), tensors of that type, save for dtypes that are not "
          "everywhere known, which come as NumPy arrays. Tensors that require grad are read as "
          "they are.")
      .def_prop_ro(
          "inputs", [](const PyProgram& self) { return self.inputs(); },
          "The inputs in graph order: a list of Port.")
      .def_prop_ro(
          "outputs", [](const PyProgram& self) { return self.outputs(); },
          "The outputs in graph order: a list of Port.")
      .def("explain", explain,
           "Why each node runs where it runs: an openxrt.Explanation of the plan last run, or of "
           "the one for the declared shapes. print() it for a table, .to_html(path) for a page "
           "with the graph drawn.")
      .def(
          "enable_profile",
          [](const PyProgram& self, bool on) { self.program().enable_profile(on); },
          nb::arg("on") = true, "Starts or stops recording every launch.")
      .def(
          "profile", [](const PyProgram& self) { return self.program().profile(); },
          "The launches recorded since enable_profile(): a list of LaunchEvent, newest last.")
      .def(
          "take_profile", [](PyProgram& self) { return self.program().take_profile(); },
          "As profile(), and forgets them: each launch is handed out once.")
      .def(
          "trace_json", [](const PyProgram& self) { return self.program().trace_json(); },
          "profile() as a trace that Chrome and Perfetto open.")
      .def(
          "graph_text", [](const PyProgram& self) { return self.program().graph_text(); },
          "The graph after passes, before partition, as text.")
      .def(
          "_repr_html_",
          [](nb::handle self) {
            return nb::module_::import_("openxrt.explanation").attr("program_html")(self);
          },
          "What a notebook shows: engines, inputs and outputs.")
      .def("__repr__", [](const PyProgram& self) {
        std::string text = "<openxrt.Program (";
        for (const Port& port : self.inputs()) {
          text += fmt::format("{}: {}, ", port.name, to_string(port.type));
        }
        if (text.ends_with(", ")) text.resize(text.size() - 2);
        text += ") -> (";
        for (const Port& port : self.outputs()) {
          text += fmt::format("{}: {}, ", port.name, to_string(port.type));
        }
        if (text.ends_with(", ")) text.resize(text.size() - 2);
        return text + ")>";
      });

  module.def("load", load, nb::arg("source"), nb::arg("options"), nb::rv_policy::take_ownership);
}

}  // namespace xrt::python
