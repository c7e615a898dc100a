// SPDX-License-Identifier: Apache-2.0
// Programs and requests of the C API.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/message.h"
#include "capi/border.h"
#include "capi/request_pool.h"
#include "xrt/program.h"

namespace {

using xrt::Data;
using xrt::Error;
using xrt::ErrorCode;
using xrt::Port;
using xrt::Program;
using xrt::Results;
using xrt::Tensor;
using xrt::Type;
using xrt::capi::check_size;
using xrt::capi::copy_text;
using xrt::capi::guarded;
using xrt::capi::need;
using xrt::capi::need_array;
using xrt::capi::new_value;
using xrt::capi::RequestPool;

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

// A port with the arrays that xrt_port points into.
struct PortText {
  explicit PortText(const Port& given) : port(given), type(to_string(given.type)) {
    const Type* held = &port.type;
    while (held->element != nullptr) held = held->element.get();
    dtype = static_cast<xrt_dtype>(held->dtype);
    if (!port.type.has_rank()) return;
    for (const xrt::Dim& dim : *port.type.shape) {
      dims.push_back(dim.value());
      symbols.push_back(dim.is_symbol() ? dim.symbol().c_str() : nullptr);
    }
  }
  PortText(const PortText&) = delete;
  PortText& operator=(const PortText&) = delete;

  xrt_kind kind() const {
    switch (port.type.kind) {
      case Type::Kind::kTensor:
        return XRT_TENSOR;
      case Type::Kind::kSequence:
        return XRT_SEQUENCE;
      case Type::Kind::kOptional:
        return XRT_OPTIONAL;
      case Type::Kind::kMap:
      case Type::Kind::kSparseTensor:
        break;
    }
    return XRT_OTHER;
  }

  Port port;
  std::string type;
  xrt_dtype dtype = 0;
  std::vector<std::int64_t> dims;
  std::vector<const char*> symbols;
};

using PortTexts = std::vector<std::unique_ptr<PortText>>;

PortTexts texts_of(const std::vector<Port>& ports) {
  PortTexts texts;
  for (const Port& port : ports) texts.push_back(std::make_unique<PortText>(port));
  return texts;
}

void describe(const PortTexts& ports, std::size_t index, xrt_port* port) {
  check_size(need(port, "port")->size, sizeof(xrt_port), "xrt_port");
  if (index >= ports.size()) {
    fail("there is no port " + std::to_string(index) + " in " + std::to_string(ports.size()));
  }
  const PortText& text = *ports[index];
  port->name = text.port.name.c_str();
  port->type = text.type.c_str();
  port->kind = text.kind();
  port->dtype = text.dtype;
  port->rank = text.port.type.has_rank() ? static_cast<std::int64_t>(text.dims.size()) : -1;
  port->dims = text.dims.data();
  port->symbols = text.symbols.data();
  port->has_default = text.port.has_default ? 1 : 0;
}

std::size_t find_port(const std::vector<Port>& ports, const char* name, const char* kind) {
  std::string known;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
    known += (i == 0 ? "" : ", ") + ports[i].name;
  }
  fail("there is no " + std::string(kind) + " '" + name + "'; there are: " + xrt::shortened(known));
}

Results results_of(const xrt_run_options* options) {
  if (options == nullptr) return Results::kLikeInputs;
  check_size(options->size, offsetof(xrt_run_options, timeout_s), "xrt_run_options");
  switch (options->results) {
    case XRT_RESULTS_LIKE_INPUTS:
      return Results::kLikeInputs;
    case XRT_RESULTS_HOST:
      return Results::kHost;
    case XRT_RESULTS_DEVICE:
      return Results::kDevice;
    default:
      fail("xrt_run_options.results is " + std::to_string(options->results));
  }
}

double timeout_of(const xrt_run_options* options) {
  // Callers that were built with the first version have no such member.
  return options == nullptr || options->size < sizeof(xrt_run_options) ? 0 : options->timeout_s;
}

// One run: what goes in, what is written in place, where the rest goes.
struct Run {
  std::vector<Data> inputs, outputs;
  Results results = Results::kLikeInputs;
  double timeout_s = 0;

  void carry_out(Program& program) {
    const std::vector<Data> given = outputs;
    program.run(inputs, outputs, {.results = results, .timeout_s = timeout_s});
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i].is_tensor() || !outputs[i].is_tensor()) continue;
      // An output that shares memory with an input lies in that one.
      Tensor target = given[i].tensor();
      const Tensor& made = std::as_const(outputs[i]).tensor();
      if (made.raw() != target.raw()) copy_elements(made, target);
    }
  }
};

// `outputs` null: none is written in place.
Run run_of(const Program& program, const xrt_value* const* inputs, std::size_t input_count,
           const xrt_value* const* outputs, std::size_t output_count,
           const xrt_run_options* options) {
  Run run;
  run.results = results_of(options);
  run.timeout_s = timeout_of(options);
  const std::size_t wanted_inputs = program.inputs().size();
  const std::size_t wanted_outputs = program.outputs().size();
  if (input_count != wanted_inputs) {
    fail("the program takes " + std::to_string(wanted_inputs) + " inputs, " +
         std::to_string(input_count) + " were given");
  }
  if (outputs != nullptr && output_count != wanted_outputs) {
    fail("the program has " + std::to_string(wanted_outputs) + " outputs, room for " +
         std::to_string(output_count) + " was given");
  }
  need_array(inputs, input_count, "inputs");
  for (std::size_t i = 0; i < input_count; ++i) {
    run.inputs.push_back(inputs[i] == nullptr ? Data() : inputs[i]->data);
  }
  run.outputs.resize(wanted_outputs);
  for (std::size_t i = 0; outputs != nullptr && i < output_count; ++i) {
    if (outputs[i] != nullptr) run.outputs[i] = outputs[i]->data;
  }
  return run;
}

// New values for the places that are null; all of them or, on failure, none.
void hand_out(const std::vector<Data>& made, const std::vector<xrt_value**>& places) {
  std::vector<std::unique_ptr<xrt_value>> values;
  for (std::size_t i = 0; i < places.size(); ++i) {
    values.emplace_back(*places[i] == nullptr ? new_value(made[i]) : nullptr);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (values[i] != nullptr) *places[i] = values[i].release();
  }
}

}  // namespace

struct xrt_program {
  explicit xrt_program(std::shared_ptr<Program> loaded)
      : program(std::move(loaded)),
        inputs(texts_of(program->inputs())),
        outputs(texts_of(program->outputs())) {}

  std::shared_ptr<Program> program;
  PortTexts inputs, outputs;
  RequestPool pool;  // last: its threads end before what they use goes
};

namespace {

// What a request and the run that it stands for share.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_there = false;
  xrt_code code = XRT_OK;
  std::string message;
  std::vector<Data> outputs;
};

}  // namespace

struct xrt_request {
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
};

namespace {

// Carries out a submitted run and tells whoever waits for it.
void answer(Program& program, Run& run, Outcome& outcome) noexcept {
  xrt_status* failure = nullptr;
  const xrt_code code = guarded(&failure, [&] { run.carry_out(program); });
  // The caller's memory is not touched any more, and its `release` may be called, from here on.
  run.inputs.clear();
  {
    const std::lock_guard lock(outcome.mutex);
    outcome.code = code;
    if (failure != nullptr) outcome.message = std::move(failure->message);
    if (code == XRT_OK) outcome.outputs = std::move(run.outputs);
    outcome.is_there = true;
  }
  run.outputs.clear();
  xrt_status_free(failure);
  outcome.changed.notify_all();
}

}  // namespace

xrt_code xrt_program_load(const char* path, const xrt_options* options, xrt_program** program,
                          xrt_status** status) {
  return guarded(status, [&] {
    need(program, "program");
    const xrt::ProgramOptions given = options == nullptr ? xrt::ProgramOptions() : options->options;
    *program = new xrt_program(Program::load(need(path, "path"), given));
  });
}

xrt_code xrt_program_load_bytes(const void* bytes, size_t size, const xrt_options* options,
                                xrt_program** program, xrt_status** status) {
  return guarded(status, [&] {
    need(program, "program");
    const xrt::ProgramOptions given = options == nullptr ? xrt::ProgramOptions() : options->options;
    const std::string_view model(static_cast<const char*>(need(bytes, "bytes")), size);
    *program = new xrt_program(Program::load_bytes(model, given));
  });
}

void xrt_program_free(xrt_program* program) { delete program; }

size_t xrt_program_input_count(const xrt_program* program) {
  return program == nullptr ? 0 : program->inputs.size();
}

size_t xrt_program_output_count(const xrt_program* program) {
  return program == nullptr ? 0 : program->outputs.size();
}

xrt_code xrt_program_input(const xrt_program* program, size_t index, xrt_port* port,
                           xrt_status** status) {
  return guarded(status, [&] { describe(need(program, "program")->inputs, index, port); });
}

xrt_code xrt_program_output(const xrt_program* program, size_t index, xrt_port* port,
                            xrt_status** status) {
  return guarded(status, [&] { describe(need(program, "program")->outputs, index, port); });
}

xrt_code xrt_program_run(xrt_program* program, const xrt_value* const* inputs, size_t input_count,
                         xrt_value** outputs, size_t output_count, const xrt_run_options* options,
                         xrt_status** status) {
  return guarded(status, [&] {
    Program& target = *need(program, "program")->program;
    need_array(outputs, target.outputs().size(), "outputs");
    Run run = run_of(target, inputs, input_count, outputs, output_count, options);
    run.carry_out(target);
    std::vector<xrt_value**> places;
    for (std::size_t i = 0; i < output_count; ++i) places.push_back(&outputs[i]);
    hand_out(run.outputs, places);
  });
}

xrt_code xrt_program_run_named(xrt_program* program, const char* const* input_names,
                               const xrt_value* const* inputs, size_t input_count,
                               const char* const* output_names, xrt_value** outputs,
                               size_t output_count, const xrt_run_options* options,
                               xrt_status** status) {
  return guarded(status, [&] {
    Program& target = *need(program, "program")->program;
    need_array(input_names, input_count, "input_names");
    need_array(inputs, input_count, "inputs");
    need_array(output_names, output_count, "output_names");
    need_array(outputs, output_count, "outputs");
    std::vector<const xrt_value*> ordered(target.inputs().size(), nullptr);
    for (std::size_t i = 0; i < input_count; ++i) {
      const char* name = need(input_names[i], "a name of an input");
      const xrt_value*& place = ordered[find_port(target.inputs(), name, "input")];
      if (place != nullptr) fail("input '" + std::string(name) + "' was given twice");
      place = inputs[i];
    }
    std::vector<const xrt_value*> given(target.outputs().size(), nullptr);
    std::vector<std::size_t> wanted;
    for (std::size_t i = 0; i < output_count; ++i) {
      const char* name = need(output_names[i], "a name of an output");
      const std::size_t port = find_port(target.outputs(), name, "output");
      for (const std::size_t other : wanted) {
        if (other == port) fail("output '" + std::string(name) + "' was named twice");
      }
      wanted.push_back(port);
      given[port] = outputs[i];
    }
    Run run = run_of(target, ordered.data(), ordered.size(), given.data(), given.size(), options);
    run.carry_out(target);
    std::vector<Data> made;
    std::vector<xrt_value**> places;
    for (std::size_t i = 0; i < output_count; ++i) {
      made.push_back(run.outputs[wanted[i]]);
      places.push_back(&outputs[i]);
    }
    hand_out(made, places);
  });
}

xrt_code xrt_program_submit(xrt_program* program, const xrt_value* const* inputs,
                            size_t input_count, const xrt_value* const* outputs,
                            size_t output_count, const xrt_run_options* options,
                            xrt_callback callback, void* context, xrt_request** request,
                            xrt_status** status) {
  return guarded(status, [&] {
    need(request, "request");
    Program& target = *need(program, "program")->program;
    const auto run =
        std::make_shared<Run>(run_of(target, inputs, input_count, outputs, output_count, options));
    auto handle = std::make_unique<xrt_request>();
    xrt_request* const given_out = handle.get();
    const std::shared_ptr<Outcome> outcome = handle->outcome;
    const auto task = [&target, run, outcome, callback, context, given_out] {
      answer(target, *run, *outcome);
      if (callback != nullptr) callback(context, given_out);
    };
    // The callback may come, and free the request, before add() returns.
    xrt_request* const before = *request;
    *request = handle.release();
    try {
      program->pool.add(task);
    } catch (...) {  // handed on to the caller as a code
      delete given_out;
      *request = before;
      throw;
    }
  });
}

int xrt_request_wait(xrt_request* request, int64_t milliseconds) {
  if (request == nullptr) return 1;
  const std::shared_ptr<Outcome> outcome = request->outcome;
  std::unique_lock lock(outcome->mutex);
  const auto is_there = [&] { return outcome->is_there; };
  if (milliseconds < 0) {
    outcome->changed.wait(lock, is_there);
    return 1;
  }
  // A clock cannot count on for ever: beyond a century is without a limit.
  constexpr std::int64_t kMost = std::int64_t{100} * 365 * 24 * 3600 * 1000;
  const std::chrono::milliseconds limit(milliseconds < kMost ? milliseconds : kMost);
  return outcome->changed.wait_for(lock, limit, is_there) ? 1 : 0;
}

xrt_code xrt_request_result(xrt_request* request, xrt_value** outputs, size_t output_count,
                            xrt_status** status) {
  xrt_code code = XRT_OK;
  std::string message;
  const xrt_code own = guarded(status, [&] {
    const std::shared_ptr<Outcome> outcome = need(request, "request")->outcome;
    xrt_request_wait(request, -1);
    const std::lock_guard lock(outcome->mutex);
    code = outcome->code;
    if (code != XRT_OK) {
      message = outcome->message;
      return;
    }
    if (output_count != outcome->outputs.size()) {
      fail("the program has " + std::to_string(outcome->outputs.size()) + " outputs, room for " +
           std::to_string(output_count) + " was given");
    }
    need_array(outputs, output_count, "outputs");
    std::vector<xrt_value*> made(output_count, nullptr);
    std::vector<xrt_value**> places;
    places.reserve(made.size());
    for (xrt_value*& value : made) places.push_back(&value);
    hand_out(outcome->outputs, places);
    for (std::size_t i = 0; i < output_count; ++i) outputs[i] = made[i];
  });
  if (own != XRT_OK || code == XRT_OK) return own;
  return xrt::capi::fail(status, code, message.c_str());
}

void xrt_request_free(xrt_request* request) { delete request; }

xrt_code xrt_program_explain_json(xrt_program* program, char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(need(program, "program")->program->explain().to_json());
  });
}

xrt_code xrt_program_set_profiling(xrt_program* program, int on, xrt_status** status) {
  return guarded(status, [&] { need(program, "program")->program->enable_profile(on != 0); });
}

xrt_code xrt_program_trace_json(const xrt_program* program, char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(need(program, "program")->program->trace_json());
  });
}

xrt_code xrt_program_graph_text(const xrt_program* program, char** text, xrt_status** status) {
  return guarded(status, [&] {
    need(text, "text");
    *text = copy_text(need(program, "program")->program->graph_text());
  });
}
