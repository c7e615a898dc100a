// SPDX-License-Identifier: Apache-2.0
// How an engine's classes become the tables of functions of xrt/engine_c.h. xrt/engine.h includes
// it at its end; an engine calls nothing here but XRT_ENGINE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/engine.h"

namespace xrt {
inline namespace XRT_ENGINE_NAMESPACE {

namespace border {

inline xrt_engine_text text(std::string_view from) { return {from.data(), from.size()}; }
inline std::string string(xrt_engine_text from) { return {from.data, from.size}; }

// The table that the library was given.
inline const xrt_engine_host*& host() {
  static const xrt_engine_host* table = nullptr;
  return table;
}

// Runs `body`; what it throws becomes a status and a text.
template <typename Body>
xrt_engine_status guard(xrt_engine_error* error, Body&& body) {
  const auto fail = [error](ErrorCode code, std::string_view what) {
    return host()->fail(error, static_cast<xrt_engine_status>(code) + 1, text(what));
  };
  try {
    body();
    return 0;
  } catch (const Error& failure) {
    return fail(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResource, "out of memory");
  } catch (const std::exception& failure) {
    return fail(ErrorCode::kEngine, failure.what());
  } catch (...) {
    return fail(ErrorCode::kEngine, "it threw something that is no std::exception");
  }
}

// An EngineInfo as C structs, which point into it.
class InfoTable {
 public:
  explicit InfoTable(const EngineInfo& info) {
    precisions_.reserve(info.devices.size());
    for (const DeviceInfo& device : info.devices) {
      std::vector<std::int32_t>& list = precisions_.emplace_back();
      for (const Precision p : device.precisions) list.push_back(static_cast<std::int32_t>(p));
      devices_.push_back({sizeof(xrt_engine_device_info), text(device.name), list.data(),
                          list.size(), device.asynchronous ? 1 : 0});
    }
    for (const EngineOption& option : info.options) {
      options_.push_back({sizeof(xrt_engine_option), text(option.name),
                          static_cast<std::int32_t>(option.kind), text(option.default_value),
                          text(option.help)});
    }
    for (const auto& device : devices_) device_pointers_.push_back(&device);
    for (const auto& option : options_) option_pointers_.push_back(&option);
    for (const auto& [name, value] : info.offline_options) pairs_.push_back(name + "=" + value);
    for (const std::string& pair : pairs_) offline_.push_back(text(pair));
    for (const std::string& file : info.files) files_.push_back(text(file));
    table_.size = sizeof(table_);
    table_.name = text(info.name);
    table_.version = text(info.version);
    table_.location = text(info.location);
    table_.devices = device_pointers_.data();
    table_.device_count = device_pointers_.size();
    table_.options = option_pointers_.data();
    table_.option_count = option_pointers_.size();
    table_.checks_options = info.checks_options ? 1 : 0;
    table_.shapes = static_cast<std::int32_t>(info.shapes);
    table_.in_place = info.in_place ? 1 : 0;
    table_.self_contained = info.self_contained ? 1 : 0;
    table_.checks_indices = info.checks_indices ? 1 : 0;
    table_.offline_options = offline_.data();
    table_.offline_option_count = offline_.size();
    table_.files = files_.data();
    table_.file_count = files_.size();
    table_.core_version = text(info.core_version);
  }
  InfoTable(const InfoTable&) = delete;
  InfoTable& operator=(const InfoTable&) = delete;
  const xrt_engine_info* get() const { return &table_; }

 private:
  std::vector<std::vector<std::int32_t>> precisions_;
  std::vector<xrt_engine_device_info> devices_;
  std::vector<const xrt_engine_device_info*> device_pointers_;
  std::vector<xrt_engine_option> options_;
  std::vector<const xrt_engine_option*> option_pointers_;
  std::vector<std::string> pairs_;
  std::vector<xrt_engine_text> offline_, files_;
  xrt_engine_info table_ = {};
};

// An executable behind the table.
class ExecutableTable {
 public:
  static void give(std::shared_ptr<const Executable> executable, xrt_engine_executable* to) {
    if (executable == nullptr) {
      *to = {nullptr, nullptr};
      return;
    }
    to->self = new ExecutableTable(std::move(executable));
    to->functions = functions();
  }

 private:
  explicit ExecutableTable(std::shared_ptr<const Executable> executable)
      : executable_(std::move(executable)), info_(executable_->info()) {
    for (const std::string& remark : info_.remarks) remarks_.push_back(text(remark));
    table_.size = sizeof(table_);
    table_.workspace_known = info_.workspace_bytes ? 1 : 0;
    table_.workspace_bytes = info_.workspace_bytes.value_or(0);
    table_.weight_bytes = info_.weight_bytes;
    table_.threads = info_.threads;
    table_.pool = info_.pool;
    table_.runs_at_once = info_.runs_at_once;
    table_.device_kind = static_cast<std::int32_t>(info_.device.kind);
    table_.device_ordinal = info_.device.ordinal;
    table_.follows_stream = info_.follows_stream ? 1 : 0;
    table_.remarks = remarks_.data();
    table_.remark_count = remarks_.size();
  }
  static const ExecutableTable& of(const void* self) {
    return *static_cast<const ExecutableTable*>(self);
  }

  static const xrt_engine_executable_functions* functions() {
    static constexpr xrt_engine_executable_functions kTable = {
        .size = sizeof(xrt_engine_executable_functions),
        .info = [](const void* self) { return &of(self).table_; },
        .create_context =
            [](const void* self, void** context, xrt_engine_error* error) {
              return guard(error,
                           [&] { *context = of(self).executable_->create_context().release(); });
            },
        .destroy_context = [](void* context) { delete static_cast<RunContext*>(context); },
        .run =
            [](const void* self, void* context, xrt_engine_run* run, xrt_engine_error* error) {
              return guard(error, [&] {
                of(self).executable_->run(RunArgs(host(), run, static_cast<RunContext*>(context)));
              });
            },
        .serialize =
            [](const void* self, xrt_engine_writer to, std::int32_t* can, xrt_engine_error* error) {
              return guard(error, [&] {
                const std::optional<std::string> blob = of(self).executable_->serialize();
                *can = blob ? 1 : 0;
                if (blob) to.write(to.self, blob->data(), blob->size());
              });
            },
        .destroy = [](const void* self) { delete static_cast<const ExecutableTable*>(self); },
    };
    return &kTable;
  }

  std::shared_ptr<const Executable> executable_;
  ExecutableInfo info_;
  std::vector<xrt_engine_text> remarks_;
  xrt_engine_executable_info table_ = {};
};

// An engine behind the table.
class EngineTable {
 public:
  static void give(std::shared_ptr<const Engine> engine, xrt_engine_library* to) {
    to->major = XRT_ENGINE_VERSION_MAJOR;
    to->minor = XRT_ENGINE_VERSION_MINOR;
    to->self = new EngineTable(std::move(engine));
    to->functions = functions();
  }

 private:
  explicit EngineTable(std::shared_ptr<const Engine> engine)
      : engine_(std::move(engine)), info_(engine_->info()) {}
  static const EngineTable& of(const void* self) { return *static_cast<const EngineTable*>(self); }

  static Function function_of(const xrt_engine_function* from) {
    Function to{string(from->name), GraphView(host(), from->graph)};
    for (std::size_t i = 0; i < from->alias_count; ++i) {
      to.aliases.push_back({from->aliases[i].input, from->aliases[i].output});
    }
    to.to_onnx = [from](std::size_t inline_limit) {
      std::string bytes;
      const xrt_engine_writer writer = {&bytes, [](void* self, const void* data, std::size_t size) {
                                          static_cast<std::string*>(self)->append(
                                              static_cast<const char*>(data), size);
                                        }};
      const xrt_engine_status status = host()->function_onnx(from->onnx, inline_limit, writer);
      if (status != 0) throw Error(static_cast<ErrorCode>(status - 1), bytes);
      return bytes;
    };
    return to;
  }
  static CompileOptions options_of(const xrt_engine_compile_options* from) {
    CompileOptions to;
    to.device = string(from->device);
    to.precision = static_cast<Precision>(from->precision);
    to.phase = static_cast<Phase>(from->phase);
    to.num_threads = from->num_threads;
    for (std::size_t i = 0; i < from->option_count; ++i) {
      to.engine_options.emplace(string(from->option_names[i]), string(from->option_values[i]));
    }
    to.max_workspace_bytes = from->max_workspace_bytes;
    to.max_batch_size = from->max_batch_size;
    to.records_dir = string(from->records_dir);
    if (from->size >=
        offsetof(xrt_engine_compile_options, range_count) + sizeof(from->range_count)) {
      for (std::size_t i = 0; i < from->range_count; ++i) {
        const xrt_engine_size_range& range = *from->ranges[i];
        to.ranges.push_back({string(range.symbol), range.least, range.usual, range.most});
      }
    }
    if (from->size >= offsetof(xrt_engine_compile_options, streams) + sizeof(from->streams)) {
      to.streams = from->streams;
    }
    to.progress = [given = from->progress](std::string_view what, double part) {
      if (host()->progress(given, text(what), part) != 0) {
        throw Error(ErrorCode::kEngine, "the compilation was cancelled");
      }
    };
    return to;
  }

  void answer(const xrt_engine_query* query, xrt_engine_answers* answers) const {
    SupportQuery question{
        GraphView(host(), query->graph),
        {query->node},
        string(query->device),
        static_cast<Phase>(query->phase),
        {query->mutable_inputs, query->mutable_inputs + query->mutable_input_count}};
    const auto give = [&](std::int32_t node, const Support& support) {
      host()->answer(answers, node, support ? 1 : 0, text(support.reason()));
    };
    if (query->node >= 0) {
      give(query->node, engine_->supports(question));
      return;
    }
    const std::vector<Support> all = engine_->supports_all(question);
    for (std::size_t i = 0; i < all.size(); ++i) give(static_cast<std::int32_t>(i), all[i]);
  }

  static const xrt_engine_functions* functions() {
    static constexpr xrt_engine_functions kTable = {
        .size = sizeof(xrt_engine_functions),
        .info = [](const void* self) { return of(self).info_.get(); },
        .supports =
            [](const void* self, const xrt_engine_query* query, xrt_engine_answers* answers,
               xrt_engine_error* error) {
              return guard(error, [&] { of(self).answer(query, answers); });
            },
        .compile =
            [](const void* self, const xrt_engine_function* function,
               const xrt_engine_compile_options* options, xrt_engine_executable* executable,
               xrt_engine_error* error) {
              return guard(error, [&] {
                ExecutableTable::give(
                    of(self).engine_->compile(function_of(function), options_of(options)),
                    executable);
              });
            },
        .load =
            [](const void* self, const xrt_engine_tensor* blob, const xrt_engine_function* function,
               const xrt_engine_compile_options* options, xrt_engine_executable* executable,
               xrt_engine_error* error) {
              return guard(error, [&] {
                ExecutableTable::give(
                    of(self).engine_->load(TensorView(host(), blob), function_of(function),
                                           options_of(options)),
                    executable);
              });
            },
        .ops =
            [](const void* self, void* to, void (*add)(void* to, xrt_engine_text op),
               xrt_engine_error* error) {
              return guard(error, [&] {
                for (const std::string& op : of(self).engine_->ops()) add(to, text(op));
              });
            },
        .destroy = [](const void* self) { delete static_cast<const EngineTable*>(self); },
    };
    return &kTable;
  }

  std::shared_ptr<const Engine> engine_;
  InfoTable info_;
};

// What a library's entry does.
template <typename Make>
xrt_engine_status enter(const xrt_engine_host* table, xrt_engine_library* library,
                        xrt_engine_error* error, Make&& make) {
  host() = table;
  return guard(error, [&] { EngineTable::give(make(), library); });
}

}  // namespace border
}  // namespace XRT_ENGINE_NAMESPACE
}  // namespace xrt

// Makes a library of the engine: `...` is its class, whose constructor takes nothing.
#define XRT_ENGINE(...)                                                                    \
  extern "C" __attribute__((visibility("default"))) xrt_engine_status xrt_engine_entry(    \
      const xrt_engine_host* host, xrt_engine_library* library, xrt_engine_error* error) { \
    return ::xrt::border::enter(host, library, error,                                      \
                                [] { return std::make_shared<const __VA_ARGS__>(); });     \
  }
