// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/pjrt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/scoped_variable.h"
#include "base/spare_threads.h"

namespace xrt::xla {

namespace fs = std::filesystem;

namespace {

// How the plugin of a platform is found.
struct Source {
  const char* title;     // in messages
  const char* variable;  // names the file
  const char* install;   // in messages
  // Where PyPI's packages put it, below a folder of Python packages; the newest first.
  std::vector<const char*> in_packages;
  std::vector<std::string_view> platform_names;  // what its client calls itself
};

const Source& source_of(Platform platform) {
  static const Source cpu{"XLA's CPU plugin (xla_cpu_pjrt.so)",
                          "XRT_PJRT_PLUGIN",
                          "pip install xla-cpu-pjrt",
                          {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
                          {"cpu", "Host"}};
  static const Source cuda{
      "XLA's CUDA plugin (xla_cuda_plugin.so)",
      "XRT_PJRT_CUDA_PLUGIN",
      "pip install 'jax-cuda13-pjrt[with_cuda]'",
      {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
      {"cuda", "gpu"}};
  return platform == Platform::kCpu ? cpu : cuda;
}

void add_packages(const fs::path& folder, const Source& source, std::vector<fs::path>& found) {
  for (const char* file : source.in_packages) found.push_back(folder / file);
}

void add_environment(const fs::path& prefix, const Source& source, std::vector<fs::path>& found) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (entry.path().filename().string().starts_with("python3")) {
      add_packages(entry.path() / "site-packages", source, found);
    }
  }
}

// A varint of the protobuf wire format.
void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// A length-delimited field.
void put_field(std::string& out, int number, std::string_view bytes) {
  put_varint(out, static_cast<std::uint64_t>(number) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789", text[0] == '-') == std::string::npos;
}

}  // namespace

DeviceName parse_device(const std::string& device) {
  if (device == "cpu") return {Platform::kCpu, 0};
  if (device == "cuda") return {Platform::kCuda, 0};
  constexpr std::string_view kCuda = "cuda:";
  if (device.starts_with(kCuda) && device.size() <= kCuda.size() + 4) {
    const std::string number = device.substr(kCuda.size());
    if (is_number(number) && number[0] != '-') return {Platform::kCuda, std::stoi(number)};
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("XLA: '{}' is no device; devices are cpu, cuda and cuda:N", device));
}

std::string compile_options(const XlaFlags& flags, std::int64_t device_id) {
  // CompileOptionsProto: executable_build_options (3) {num_replicas (4), num_partitions (5),
  // device_assignment (9)} and env_option_overrides (7), a map from flag name to
  // OptionOverrideProto {string (1), bool (2), int (3)}.
  const auto put_number = [](std::string& out, int number, std::int64_t value) {
    put_varint(out, static_cast<std::uint64_t>(number) << 3);
    put_varint(out, static_cast<std::uint64_t>(value));
  };
  std::string build;
  put_number(build, 4, 1);
  put_number(build, 5, 1);
  if (device_id != 0) {
    // DeviceAssignmentProto: replica_count (1), computation_count (2), computation_devices (3)
    // {replica_device_ids (1)}. Without one, the plugin takes its first device.
    std::string replica;
    put_number(replica, 1, device_id);
    std::string assignment;
    put_number(assignment, 1, 1);
    put_number(assignment, 2, 1);
    put_field(assignment, 3, replica);
    put_field(build, 9, assignment);
  }
  std::string out;
  put_field(out, 3, build);
  for (const auto& [name, value] : flags) {
    std::string option;
    if (value == "true" || value == "false") {
      put_varint(option, 2 << 3);
      put_varint(option, value == "true" ? 1 : 0);
    } else if (is_number(value)) {
      put_varint(option, 3 << 3);
      put_varint(option, static_cast<std::uint64_t>(std::stoll(value)));
    } else {
      put_field(option, 1, value);
    }
    std::string entry;
    put_field(entry, 1, name);
    put_field(entry, 2, option);
    put_field(out, 7, entry);
  }
  return out;
}

// --- PjrtApi ------------------------------------------------------------------------------------

std::vector<fs::path> PjrtApi::search_path(Platform platform) {
  const Source& source = source_of(platform);
  if (const char* plugin = std::getenv(source.variable); plugin != nullptr && *plugin != '\0') {
    return {fs::path(plugin)};
  }
  std::vector<fs::path> found;
  if (const char* folders = std::getenv("XRT_PYTHON_PACKAGES"); folders != nullptr) {
    std::istringstream all(folders);
    for (std::string folder; std::getline(all, folder, ':');) {
      if (!folder.empty()) add_packages(folder, source, found);
    }
  }
  // Beside the wheel that this library is part of: any folder above it may hold the packages.
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&compile_options), &info) != 0 &&
      info.dli_fname != nullptr) {
    std::error_code error;
    const fs::path self = fs::weakly_canonical(info.dli_fname, error);
    for (fs::path dir = self.parent_path(); dir.has_relative_path(); dir = dir.parent_path()) {
      add_packages(dir, source, found);
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* prefix = std::getenv(variable); prefix != nullptr && *prefix != '\0') {
      add_environment(prefix, source, found);
    }
  }
#ifdef XRT_SITE_PACKAGES
  add_packages(XRT_SITE_PACKAGES, source, found);
#endif
  return found;
}

fs::path PjrtApi::find(Platform platform) {
  for (const fs::path& path : search_path(platform)) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

const PjrtApi& PjrtApi::get(Platform platform) {
  struct Loaded {
    std::unique_ptr<PjrtApi> api;
    std::exception_ptr error;
  };
  const auto load = [](Platform wanted) {
    Loaded result;
    try {
      const fs::path found = find(wanted);
      if (found.empty()) {
        std::string tried;
        for (const fs::path& path : search_path(wanted)) {
          tried += fmt::format("\n  {}", path.string());
        }
        const Source& source = source_of(wanted);
        throw Error(ErrorCode::kNotFound,
                    fmt::format("{} was not found. Install it with `{}` in this environment, or "
                                "set {} to the file. Looked for:{}",
                                source.title, source.install, source.variable, tried));
      }
      result.api = std::make_unique<PjrtApi>(wanted, found);
    } catch (...) {
      result.error = std::current_exception();
    }
    return result;
  };
  // Never destroyed: a plugin has threads of its own until the process ends.
  const auto& loaded = [&]() -> const Loaded& {
    if (platform == Platform::kCpu) {
      static const Loaded& cpu = *new Loaded(load(Platform::kCpu));
      return cpu;
    }
    static const Loaded& cuda = *new Loaded(load(Platform::kCuda));
    return cuda;
  }();
  if (loaded.error) std::rethrow_exception(loaded.error);
  return *loaded.api;
}

PjrtApi::PjrtApi(Platform platform, const fs::path& library)
    : platform_(platform), location_(library) {
  // The plugin reads its log level when it is loaded: what it was asked to do is no news to a user,
  // errors are.
  const char* level = std::getenv("TF_CPP_MIN_LOG_LEVEL");
  const ScopedVariable quiet("TF_CPP_MIN_LOG_LEVEL", level == nullptr ? "2" : level);
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorCode::kEngine,
                fmt::format("PJRT plugin {} does not load: {}", library.string(), ::dlerror()));
  }
  using GetPjrtApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetPjrtApi>(::dlsym(handle, "GetPjrtApi"));
  if (get == nullptr) {
    throw Error(ErrorCode::kEngine, fmt::format("{} is no PJRT plugin: it does not export "
                                                "GetPjrtApi",
                                                library.string()));
  }
  table_ = get();
  if (table_ == nullptr) {
    throw Error(ErrorCode::kEngine,
                fmt::format("PJRT plugin {} gives no API table", library.string()));
  }
  const PJRT_Api_Version& version = table_->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR) {
    throw Error(
        ErrorCode::kEngine,
        fmt::format("PJRT plugin {} has API {}.{}; this build speaks {}.x", library.string(),
                    version.major_version, version.minor_version, PJRT_API_MAJOR));
  }
  if (has<&PJRT_Api::PJRT_Plugin_Initialize>()) {
    auto args = pjrt_args<PJRT_Plugin_Initialize_Args>(PJRT_Plugin_Initialize_Args_STRUCT_SIZE);
    call<&PJRT_Api::PJRT_Plugin_Initialize>("PJRT_Plugin_Initialize", args);
  }
}

std::string PjrtApi::version() const {
  const PJRT_Api_Version& version = table_->pjrt_api_version;
  std::string text = fmt::format("pjrt {}.{}", version.major_version, version.minor_version);
  if (has<&PJRT_Api::PJRT_Plugin_Attributes>()) {
    auto args = pjrt_args<PJRT_Plugin_Attributes_Args>(PJRT_Plugin_Attributes_Args_STRUCT_SIZE);
    call<&PJRT_Api::PJRT_Plugin_Attributes>("PJRT_Plugin_Attributes", args);
    for (std::size_t i = 0; i < args.num_attributes; ++i) {
      const PJRT_NamedValue& value = args.attributes[i];
      const std::string_view name(value.name, value.name_size);
      if (value.type == PJRT_NamedValue_kInt64 && name == "xla_version") {
        text += fmt::format(", xla {}", value.int64_value);
      } else if (value.type == PJRT_NamedValue_kInt64List && name == "stablehlo_current_version") {
        text += ", stablehlo ";
        for (std::size_t k = 0; k < value.value_size; ++k) {
          text += fmt::format("{}{}", k == 0 ? "" : ".", value.int64_array_value[k]);
        }
      }
    }
  }
  // Two builds of one API version differ at least in size.
  std::error_code error;
  const auto size = fs::file_size(location_, error);
  return error ? text : text + fmt::format(", {} bytes", size);
}

namespace {

PJRT_NamedValue named(std::string_view name, PJRT_NamedValue_Type type) {
  auto value = pjrt_args<PJRT_NamedValue>(PJRT_NamedValue_STRUCT_SIZE);
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = 1;
  return value;
}

}  // namespace

namespace {

std::atomic<bool> threads_are_gone = false;

}  // namespace

void refuse_after_fork() {
  if (!threads_are_gone.load(std::memory_order_relaxed)) return;
  throw Error(ErrorCode::kEngine,
              "XLA was in use before this process was forked, and its threads are not here: a run "
              "would wait for ever; start processes with multiprocessing's \"spawn\", fork before "
              "the first program with XLA is loaded, or use another engine in the child");
}

PJRT_Client* PjrtApi::create_client(int num_threads) const {
  static std::once_flag watched;
  std::call_once(watched,
                 [] { ::pthread_atfork(nullptr, nullptr, [] { threads_are_gone = true; }); });
  // XLA:CPU reads the size of its pool from the environment, once per client. It also wants a
  // thread per device, of which it makes several unless told otherwise.
  const ScopedVariable threads("PJRT_NPROC", std::to_string(num_threads));
  const ScopedVariable older_name("NPROC", std::to_string(num_threads));
  PJRT_NamedValue option{};
  if (platform_ == Platform::kCpu) {
    // Two pools, and a few that wait for work: one that cannot be started ends the process.
    constexpr int kFurtherThreads = 4;
    require_threads(2 * num_threads + kFurtherThreads);
    option = named("cpu_device_count", PJRT_NamedValue_kInt64);
    option.int64_value = 1;
  } else {
    // Three quarters of the GPU's memory would be taken at once: others use the GPU too.
    option = named("preallocate", PJRT_NamedValue_kBool);
    option.bool_value = false;
  }
  auto args = pjrt_args<PJRT_Client_Create_Args>(PJRT_Client_Create_Args_STRUCT_SIZE);
  args.create_options = &option;
  args.num_options = 1;
  try {
    call<&PJRT_Api::PJRT_Client_Create>("PJRT_Client_Create", args);
  } catch (const Error& error) {
    // An older plugin may know no such option.
    log_debug(error.what());
    args = pjrt_args<PJRT_Client_Create_Args>(PJRT_Client_Create_Args_STRUCT_SIZE);
    call<&PJRT_Api::PJRT_Client_Create>("PJRT_Client_Create", args);
  }
  return args.client;
}

const PjrtClient& PjrtApi::client(int num_threads, int ordinal) const {
  refuse_after_fork();
  const int threads = platform_ == Platform::kCpu ? num_threads : 0;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PjrtClient>& device = devices_[{threads, ordinal}];
  if (!device) {
    PJRT_Client*& client = clients_[threads];
    if (client == nullptr) client = create_client(num_threads);
    auto made = std::make_unique<PjrtClient>(*this, client, ordinal, threads);
    const std::vector<std::string_view>& names = source_of(platform_).platform_names;
    if (std::find(names.begin(), names.end(), made->platform()) == names.end()) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("PJRT plugin {} drives '{}', not '{}'; {} is to name {}",
                              location_.string(), made->platform(), names.front(),
                              source_of(platform_).variable, source_of(platform_).title));
    }
    device = std::move(made);
  }
  return *device;
}

void PjrtApi::missing(std::string_view name) const {
  throw Error(ErrorCode::kEngine,
              fmt::format("PJRT plugin {} ({}) lacks {}, which is needed here; a newer plugin has "
                          "it",
                          location_.string(), version(), name));
}

void PjrtApi::check(PJRT_Error* error, std::string_view name) const {
  if (error == nullptr) return;
  auto message = pjrt_args<PJRT_Error_Message_Args>(PJRT_Error_Message_Args_STRUCT_SIZE);
  message.error = error;
  table_->PJRT_Error_Message(&message);
  std::string text(message.message, message.message_size);
  auto code = pjrt_args<PJRT_Error_GetCode_Args>(PJRT_Error_GetCode_Args_STRUCT_SIZE);
  code.error = error;
  PJRT_Error* failed = table_->PJRT_Error_GetCode(&code);
  const bool exhausted = failed == nullptr && code.code == PJRT_Error_Code_RESOURCE_EXHAUSTED;
  for (PJRT_Error* each : {failed, error}) {
    if (each == nullptr) continue;
    auto destroy = pjrt_args<PJRT_Error_Destroy_Args>(PJRT_Error_Destroy_Args_STRUCT_SIZE);
    destroy.error = each;
    table_->PJRT_Error_Destroy(&destroy);
  }
  throw Error(exhausted ? ErrorCode::kResource : ErrorCode::kEngine,
              fmt::format("XLA: {} failed: {}", name, text));
}

const PJRT_Extension_Base* PjrtApi::extension(PJRT_Extension_Type type) const {
  const PJRT_Extension_Base* found = table_->extension_start;
  while (found != nullptr && found->type != type) found = found->next;
  return found;
}

bool PjrtApi::is_ready(PJRT_Event* event) const {
  if (event == nullptr) return true;
  auto args = pjrt_args<PJRT_Event_IsReady_Args>(PJRT_Event_IsReady_Args_STRUCT_SIZE);
  args.event = event;
  call<&PJRT_Api::PJRT_Event_IsReady>("PJRT_Event_IsReady", args);
  return args.is_ready;
}

void PjrtApi::await(PjrtEvent event, std::string_view what) const {
  if (!event) return;
  auto args = pjrt_args<PJRT_Event_Await_Args>(PJRT_Event_Await_Args_STRUCT_SIZE);
  args.event = event.get();
  call<&PJRT_Api::PJRT_Event_Await>(what, args);
}

}  // namespace xrt::xla
