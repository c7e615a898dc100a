// SPDX-License-Identifier: Apache-2.0
// Programs and requests of the C API.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/message.h"
#include "capi/border.h"
#include "program/given_outputs.h"
#include "xrt/program.h"

namespace {

using xrt::Data;
using xrt::Error;
using xrt::ErrorCode;
using xrt::Port;
using xrt::Program;
using xrt::Request;
using xrt::Results;
using xrt::Tensor;
using xrt::Type;
using xrt::capi::check_size;
using xrt::capi::copy_text;
using xrt::capi::guarded;
using xrt::capi::need;
using xrt::capi::need_array;
using xrt::capi::new_value;

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

// Callers that were built with an earlier version have no such member.
bool has_member(const xrt_run_options& options, std::size_t offset, std::size_t bytes) {
  return options.size >= offset + bytes;
}

xrt::RunOptions run_options_of(const xrt_run_options* given) {
  xrt::RunOptions options{.results = results_of(given)};
  if (given == nullptr) return options;
  if (has_member(*given, offsetof(xrt_run_options, timeout_s), sizeof(given->timeout_s))) {
    options.timeout_s = given->timeout_s;
  }
  if (has_member(*given, offsetof(xrt_run_options, must_not_wait), sizeof(given->must_not_wait))) {
    options.wait_for_room = given->must_not_wait == 0;
  }
  return options;
}

// One run: what goes in, what is written in place, where the rest goes.
struct Run {
  std::vector<Data> inputs, outputs;
  xrt::RunOptions options;

  void carry_out(Program& program) {
    const std::vector<Data> given = outputs;
    program.run(inputs, outputs, options);
    xrt::write_given(given, outputs);
  }
};

// `outputs` null: none is written in place.
Run run_of(const Program& program, const xrt_value* const* inputs, std::size_t input_count,
           const xrt_value* const* outputs, std::size_t output_count,
           const xrt_run_options* options) {
  Run run;
  run.options = run_options_of(options);
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
};

struct xrt_request {
  Request request;
};

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
    Run run = run_of(target, inputs, input_count, outputs, output_count, options);
    auto handle = std::make_unique<xrt_request>();
    xrt_request* const given_out = handle.get();
    // The callback gets a handle that is complete, and may free it before this function returns.
    const auto is_complete = std::make_shared<std::latch>(1);
    std::function<void(const Request&)> done;
    if (callback != nullptr) {
      done = [callback, context, given_out, is_complete](const Request&) {
        is_complete->wait();
        callback(context, given_out);
      };
    }
    handle->request =
        target.submit(std::move(run.inputs), run.options, std::move(run.outputs), std::move(done));
    *request = handle.release();
    is_complete->count_down();
  });
}

int xrt_request_wait(xrt_request* request, int64_t milliseconds) {
  if (request == nullptr) return 1;
  try {
    if (milliseconds >= 0) {
      // A clock cannot count on for ever: beyond a century is without a limit.
      constexpr std::int64_t kMost = std::int64_t{100} * 365 * 24 * 3600 * 1000;
      const std::chrono::milliseconds limit(milliseconds < kMost ? milliseconds : kMost);
      return request->request.wait_for(limit) ? 1 : 0;
    }
    request->request.wait();
    return 1;
  } catch (
      const Error&) {  // interrupted, or of another process: it has not ended, result() says why
    return 0;
  }
}

int xrt_request_cancel(xrt_request* request) {
  return request != nullptr && request->request.cancel() ? 1 : 0;
}

xrt_code xrt_request_result(xrt_request* request, xrt_value** outputs, size_t output_count,
                            xrt_status** status) {
  return guarded(status, [&] {
    const std::vector<Data> made_by_run = need(request, "request")->request.get();
    if (output_count != made_by_run.size()) {
      fail("the program has " + std::to_string(made_by_run.size()) + " outputs, room for " +
           std::to_string(output_count) + " was given");
    }
    need_array(outputs, output_count, "outputs");
    std::vector<xrt_value*> made(output_count, nullptr);
    std::vector<xrt_value**> places;
    places.reserve(made.size());
    for (xrt_value*& value : made) places.push_back(&value);
    hand_out(made_by_run, places);
    for (std::size_t i = 0; i < output_count; ++i) outputs[i] = made[i];
  });
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
