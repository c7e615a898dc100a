// SPDX-License-Identifier: Apache-2.0
#include "registry/engine_library.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/host.h"
#include "xrt/version.h"

namespace xrt {
namespace {

using border::string;
using border::text;

xrt_engine_error* handle_of(EngineError& error) {
  return reinterpret_cast<xrt_engine_error*>(&error);
}

void check(xrt_engine_status status, const EngineError& error) {
  if (status == 0) return;
  const bool is_code = status >= 1 && status <= static_cast<int>(ErrorCode::kInternal) + 1;
  throw Error(is_code ? static_cast<ErrorCode>(status - 1) : ErrorCode::kEngine,
              error.text.empty() ? "it failed and gave no cause" : error.text);
}

// A struct of the library's; one that is smaller than version 1.0 has it was never filled in.
template <typename T>
const T& sized(const T* from, const char* what) {
  if (from == nullptr || from->size < sizeof(T)) {
    throw Error(ErrorCode::kEngine, std::string("its ") + what + " is missing or incomplete");
  }
  return *from;
}

std::vector<std::string> strings(const xrt_engine_text* texts, std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(string(texts[i]));
  return all;
}

EngineInfo read_info(const xrt_engine_info& from) {
  EngineInfo to;
  to.name = string(from.name);
  to.version = string(from.version);
  to.location = string(from.location);
  to.devices.clear();
  for (std::size_t i = 0; i < from.device_count; ++i) {
    const xrt_engine_device_info& device = sized(from.devices[i], "list of devices");
    DeviceInfo& row = to.devices.emplace_back(DeviceInfo{string(device.name)});
    if (device.precision_count > 0) row.precisions.clear();
    for (std::size_t p = 0; p < device.precision_count; ++p) {
      row.precisions.push_back(static_cast<Precision>(device.precisions[p]));
    }
    row.asynchronous = device.asynchronous != 0;
  }
  for (std::size_t i = 0; i < from.option_count; ++i) {
    const xrt_engine_option& option = sized(from.options[i], "table of options");
    to.options.push_back({string(option.name), static_cast<EngineOption::Kind>(option.kind),
                          string(option.default_value), string(option.help)});
  }
  to.checks_options = from.checks_options != 0;
  to.shapes = static_cast<Shapes>(from.shapes);
  to.in_place = from.in_place != 0;
  to.self_contained = from.self_contained != 0;
  to.checks_indices = from.checks_indices != 0;
  for (const std::string& pair : strings(from.offline_options, from.offline_option_count)) {
    const std::size_t at = pair.find('=');
    to.offline_options.emplace(pair.substr(0, at),
                               at == std::string::npos ? "" : pair.substr(at + 1));
  }
  to.files = strings(from.files, from.file_count);
  to.core_version = string(from.core_version);
  return to;
}

class LibraryContext final : public RunContext {
 public:
  LibraryContext(const xrt_engine_executable_functions& functions, void* context)
      : functions_(functions), context_(context) {}
  LibraryContext(const LibraryContext&) = delete;
  LibraryContext& operator=(const LibraryContext&) = delete;
  ~LibraryContext() override { functions_.destroy_context(context_); }
  void* get() const { return context_; }

 private:
  const xrt_engine_executable_functions& functions_;
  void* context_;
};

class LibraryExecutable final : public Executable {
 public:
  explicit LibraryExecutable(xrt_engine_executable from)
      : functions_(sized(from.functions, "table of an executable")), self_(from.self) {}
  LibraryExecutable(const LibraryExecutable&) = delete;
  LibraryExecutable& operator=(const LibraryExecutable&) = delete;
  ~LibraryExecutable() override { functions_.destroy(self_); }

  ExecutableInfo info() const override {
    const xrt_engine_executable_info& from =
        sized(functions_.info(self_), "description of an executable");
    ExecutableInfo to;
    to.workspace_bytes.reset();
    if (from.workspace_known != 0) to.workspace_bytes = from.workspace_bytes;
    to.weight_bytes = from.weight_bytes;
    to.threads = from.threads;
    to.pool = from.pool;
    to.runs_at_once = from.runs_at_once;
    to.device = {static_cast<DeviceKind>(from.device_kind), from.device_ordinal};
    to.follows_stream = from.follows_stream != 0;
    to.remarks = strings(from.remarks, from.remark_count);
    return to;
  }

  std::unique_ptr<RunContext> create_context() const override {
    EngineError error;
    void* context = nullptr;
    check(functions_.create_context(self_, &context, handle_of(error)), error);
    if (context == nullptr) return nullptr;
    return std::make_unique<LibraryContext>(functions_, context);
  }

  void run(const RunArgs& args) const override {
    EngineError error;
    const auto* context = static_cast<const LibraryContext*>(args.context());
    check(functions_.run(self_, context == nullptr ? nullptr : context->get(), args.handle(),
                         handle_of(error)),
          error);
  }

  std::optional<std::string> serialize() const override {
    EngineError error;
    std::string bytes;
    const xrt_engine_writer writer = {&bytes, [](void* to, const void* data, std::size_t size) {
                                        static_cast<std::string*>(to)->append(
                                            static_cast<const char*>(data), size);
                                      }};
    std::int32_t can = 0;
    check(functions_.serialize(self_, writer, &can, handle_of(error)), error);
    return can != 0 ? std::optional(std::move(bytes)) : std::nullopt;
  }

 private:
  const xrt_engine_executable_functions& functions_;
  const void* self_;
};

// A function and its options as the library is given them.
class Order {
 public:
  Order(const Function& function, const CompileOptions& options) {
    for (const InputOutputAlias& alias : function.aliases) {
      aliases_.push_back({alias.input, alias.output});
    }
    for (const auto& [name, value] : options.engine_options) {
      names_.push_back(text(name));
      values_.push_back(text(value));
    }
    for (const SizeRange& range : options.ranges) {
      ranges_.push_back({sizeof(xrt_engine_size_range), text(range.symbol), range.least,
                         range.usual, range.most});
    }
    for (const xrt_engine_size_range& range : ranges_) range_pointers_.push_back(&range);
    function_ = {sizeof(function_), text(function.name), function.graph.handle(),
                 aliases_.data(),   aliases_.size(),     &function.to_onnx};
    options_.size = sizeof(options_);
    options_.device = text(options.device);
    options_.precision = static_cast<std::int32_t>(options.precision);
    options_.phase = static_cast<std::int32_t>(options.phase);
    options_.num_threads = options.num_threads;
    options_.max_workspace_bytes = options.max_workspace_bytes;
    options_.max_batch_size = options.max_batch_size;
    options_.records_dir = text(options.records_dir);
    options_.option_names = names_.data();
    options_.option_values = values_.data();
    options_.option_count = names_.size();
    options_.progress = &options.progress;
    options_.ranges = range_pointers_.data();
    options_.range_count = range_pointers_.size();
    options_.streams = options.streams;
  }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;
  const xrt_engine_function* function() const { return &function_; }
  const xrt_engine_compile_options* options() const { return &options_; }

 private:
  std::vector<xrt_engine_alias> aliases_;
  std::vector<xrt_engine_text> names_, values_;
  std::vector<xrt_engine_size_range> ranges_;
  std::vector<const xrt_engine_size_range*> range_pointers_;
  xrt_engine_function function_ = {};
  xrt_engine_compile_options options_ = {};
};

class LibraryEngine final : public Engine {
 public:
  explicit LibraryEngine(const xrt_engine_library& from)
      : functions_(sized(from.functions, "table of functions")),
        self_(from.self),
        info_(read_info(sized(functions_.info(self_), "description"))) {}
  LibraryEngine(const LibraryEngine&) = delete;
  LibraryEngine& operator=(const LibraryEngine&) = delete;
  ~LibraryEngine() override { functions_.destroy(self_); }

  const EngineInfo& info() const override { return info_; }

  std::vector<std::string> ops() const override {
    std::vector<std::string> names;
    EngineError error;
    const auto add = [](void* to, xrt_engine_text op) {
      static_cast<std::vector<std::string>*>(to)->push_back(string(op));
    };
    check(functions_.ops(self_, &names, add, handle_of(error)), error);
    return names;
  }

  Support supports(const SupportQuery& query) const override {
    std::vector<std::optional<Support>> answers = ask(query);
    std::optional<Support>& own = answers.at(static_cast<std::size_t>(query.node.index));
    if (!own) throw Error(ErrorCode::kEngine, "supports() gave no answer");
    return *std::move(own);
  }

  std::vector<Support> supports_all(const SupportQuery& query) const override {
    SupportQuery all = query;
    all.node = {};
    std::vector<Support> answers;
    for (std::optional<Support>& given : ask(all)) {
      answers.push_back(given ? *std::move(given) : Support::no("it gave no answer"));
    }
    return answers;
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    const Order order(function, options);
    EngineError error;
    xrt_engine_executable made = {};
    check(functions_.compile(self_, order.function(), order.options(), &made, handle_of(error)),
          error);
    return wrap(made);
  }

  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    const Order order(function, options);
    EngineError error;
    xrt_engine_executable made = {};
    check(functions_.load(self_, blob.handle(), order.function(), order.options(), &made,
                          handle_of(error)),
          error);
    return wrap(made);
  }

 private:
  static std::shared_ptr<const Executable> wrap(const xrt_engine_executable& made) {
    if (made.functions == nullptr) return nullptr;
    return std::make_shared<LibraryExecutable>(made);
  }

  std::vector<std::optional<Support>> ask(const SupportQuery& query) const {
    xrt_engine_query question = {};
    question.size = sizeof(question);
    question.graph = query.graph.handle();
    question.node = query.node.index;
    question.device = text(query.device);
    question.phase = static_cast<std::int32_t>(query.phase);
    question.mutable_inputs = query.mutable_inputs.data();
    question.mutable_input_count = query.mutable_inputs.size();
    std::vector<std::optional<Support>> answers(query.graph.node_capacity());
    EngineError error;
    check(functions_.supports(self_, &question, reinterpret_cast<xrt_engine_answers*>(&answers),
                              handle_of(error)),
          error);
    return answers;
  }

  const xrt_engine_functions& functions_;
  const void* self_;
  EngineInfo info_;
};

}  // namespace

std::shared_ptr<const Engine> open_engine(xrt_engine_entry_function entry) {
  xrt_engine_library library = {};
  library.size = sizeof(library);
  EngineError error;
  check(entry(engine_host(), &library, handle_of(error)), error);
  if (library.major != XRT_ENGINE_VERSION_MAJOR) {
    throw Error(ErrorCode::kEngine, "it was built for version " + std::to_string(library.major) +
                                        "." + std::to_string(library.minor) +
                                        " of the engine contract; this library has version " +
                                        std::to_string(XRT_ENGINE_VERSION_MAJOR) + "." +
                                        std::to_string(XRT_ENGINE_VERSION_MINOR));
  }
  auto engine = std::make_shared<LibraryEngine>(library);
  const std::string& core = engine->info().core_version;
  if (!core.empty() && core != version()) {
    throw Error(ErrorCode::kEngine, "it was built with OpenXRT " + core + ", this is " +
                                        std::string(version()) + "; rebuild the engine");
  }
  return engine;
}

}  // namespace xrt
