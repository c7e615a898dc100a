// SPDX-License-Identifier: Apache-2.0
// The PJRT C API of one plugin: found, opened, checked, and made to speak in xrt::Error.
//
//   const PjrtApi& api = PjrtApi::get(Platform::kCpu);  // throws kEngine or kNotFound with the
//   cause const PjrtClient& client = api.client(2, 0);         // at most two threads, the first
//   device auto executable = client.compile(stablehlo_text, {});
//
// A plugin older or newer than the header that this file was built with is accepted: every call
// passes the struct size of our header, and an entry that the plugin's table does not reach, or
// leaves null, is reported by name when it is needed.
//
// Thread-safety: everything here may be used by many threads at once.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/dtype.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace xrt::xla {

class PjrtApi;
class InFlight;

// The extension of GPU plugins for work that others queue on streams of the device, whose handles
// are CUDA's. PyPI's packages hold no header of it; its layout is a fixed binary interface.
struct StreamExtension {
  struct StreamOfDevice {
    std::size_t struct_size;
    PJRT_Device* device;
    std::intptr_t stream;  // out
  };
  struct BufferOnStream {
    std::size_t struct_size;
    std::intptr_t stream;
    PJRT_Buffer* buffer;
  };
  PJRT_Extension_Base base;
  // A stream for what a view of device memory is to wait for.
  PJRT_Error* (*stream_of_device)(StreamOfDevice* args);
  // What is queued on the stream from now on begins when the buffer is written. Returns when the
  // run that writes it has been queued, with its error if that failed.
  PJRT_Error* (*let_wait)(BufferOnStream* args);
};

// What a plugin computes on.
enum class Platform { kCpu, kCuda };

// A device of the engine interface: "cpu", "cuda" (the first GPU) or "cuda:N".
struct DeviceName {
  Platform platform = Platform::kCpu;
  int ordinal = 0;
};
// Throws kInvalidArgument for any other text.
DeviceName parse_device(const std::string& device);

// Destroys a PJRT object through the table that made it.
struct PjrtDeleter {
  const PjrtApi* api = nullptr;
  void operator()(PJRT_Buffer* buffer) const;
  void operator()(PJRT_Event* event) const;
  void operator()(PJRT_LoadedExecutable* executable) const;
  void operator()(PJRT_Executable* executable) const;
};
using PjrtBuffer = std::unique_ptr<PJRT_Buffer, PjrtDeleter>;
using PjrtEvent = std::unique_ptr<PJRT_Event, PjrtDeleter>;
using PjrtLoadedExecutable = std::unique_ptr<PJRT_LoadedExecutable, PjrtDeleter>;
using PjrtExecutable = std::unique_ptr<PJRT_Executable, PjrtDeleter>;

// Compiler options by their XLA flag name: "true"/"false" are flags, digits numbers, else strings.
using XlaFlags = std::map<std::string, std::string>;

// How long the host memory that a buffer reads from stays valid and unchanged.
enum class HostMemory {
  kDuringCall,  // copied before the call returns
  kBorrowed,    // unchanged as long as the buffer lives: read in place where the plugin can
  kDonated,     // as kBorrowed, and an executable may write its result into it
};

// One device of a plugin's client. Lives until the process ends.
class PjrtClient {
 public:
  // Throws kInvalidArgument if the client has no device of that ordinal.
  PjrtClient(const PjrtApi& api, PJRT_Client* client, int ordinal, int num_threads);
  PjrtClient(const PjrtClient&) = delete;
  PjrtClient& operator=(const PjrtClient&) = delete;
  // The plugin's pools are not joined at exit: other threads may still be running then.
  ~PjrtClient();

  // Of the pool; 0 where another device than the CPU computes.
  int num_threads() const { return num_threads_; }

  // `text` is a StableHLO module with a public @main.
  PjrtLoadedExecutable compile(const std::string& text, const XlaFlags& flags) const;
  // What serialize() gave. Throws kEngine if this plugin does not take it back.
  PjrtLoadedExecutable deserialize(std::string_view bytes) const;
  std::string serialize(PJRT_LoadedExecutable* executable) const;
  // Bytes of scratch memory that one run needs; 0 if the plugin does not tell.
  std::size_t temporary_bytes(PJRT_LoadedExecutable* executable) const;

  // A dense row-major array over host memory. Memory that is not 64-byte aligned is copied.
  PjrtBuffer buffer_from_host(const void* data, PJRT_Buffer_Type type, const Dims& dims,
                              HostMemory memory) const;
  // A dense row-major array over memory of this client's device, 64-byte aligned; it must outlive
  // the buffer. It is written already, or where `written_on`, which stream_to_follow() gave, comes
  // to what is queued there now.
  PjrtBuffer view_of_device(void* data, PJRT_Buffer_Type type, const Dims& dims,
                            std::intptr_t written_on = 0) const;
  // What a run gives: results that may not be written before `complete` is ready.
  struct Started {
    std::vector<PjrtBuffer> results;
    PjrtEvent complete;
  };
  // Starts a run. `arguments` and the results follow the module's signature. Arguments at the
  // positions in `kept` are not donated, whatever the module says.
  Started start(PJRT_LoadedExecutable* executable, const std::vector<PJRT_Buffer*>& arguments,
                std::size_t output_count, const std::vector<std::int64_t>& kept) const;
  // The same, and waits.
  std::vector<PjrtBuffer> execute(PJRT_LoadedExecutable* executable,
                                  const std::vector<PJRT_Buffer*>& arguments,
                                  std::size_t output_count,
                                  const std::vector<std::int64_t>& kept) const;

  // Whether runs can be queued between what others queue on streams.
  bool follows_streams() const { return streams_ != nullptr; }
  // A stream of XLA's that waits for all that is queued on `stream` now.
  std::intptr_t stream_to_follow(void* stream) const;
  // What is queued on `stream` from now on waits for the buffer's run. Throws kEngine if that could
  // not be started.
  void let_wait(void* stream, PJRT_Buffer* buffer) const;
  // Runs of this device that were not waited for.
  InFlight& in_flight() const { return *in_flight_; }
  // Copies a result to `destination` in dense row-major order, and waits.
  void copy_to_host(PJRT_Buffer* buffer, void* destination, std::size_t bytes,
                    std::size_t rank) const;
  // Address of the buffer's memory, or null where it is not the host's.
  const void* host_address(PJRT_Buffer* buffer) const;
  // The buffer's memory on the device, which the plugin leaves where it is until the last owner
  // goes.
  struct Lent {
    void* address = nullptr;
    std::shared_ptr<const void> owner;
  };
  Lent lend(PjrtBuffer buffer) const;

  const std::string& platform() const { return platform_; }
  // Whose memory the buffers lie in.
  Device device() const;
  // What the vendor calls the device ("NVIDIA H200"): an executable runs on its like only.
  const std::string& device_kind() const { return device_kind_; }
  const PjrtApi& api() const { return api_; }

 private:
  const PjrtApi& api_;
  PJRT_Client* client_;
  int num_threads_;
  PJRT_Device* device_ = nullptr;
  int ordinal_ = 0;
  std::int64_t device_id_ = 0;
  std::string platform_;
  std::string device_kind_;
  const StreamExtension* streams_ = nullptr;
  std::unique_ptr<InFlight> in_flight_;
};

class PjrtApi {
 public:
  // The process's plugin for a platform, opened on first use. A failure is remembered and thrown
  // every time.
  static const PjrtApi& get(Platform platform);
  // Where a plugin is looked for, in order: XRT_PJRT_PLUGIN (CPU) or XRT_PJRT_CUDA_PLUGIN alone if
  // it is set.
  static std::vector<std::filesystem::path> search_path(Platform platform);
  // The first file of search_path() that exists; empty if none does.
  static std::filesystem::path find(Platform platform);

  PjrtApi(Platform platform, const std::filesystem::path& library);
  PjrtApi(const PjrtApi&) = delete;
  PjrtApi& operator=(const PjrtApi&) = delete;

  const std::filesystem::path& location() const { return location_; }
  // "pjrt 0.81, xla-cpu …": part of every cache key.
  std::string version() const;
  // The device `ordinal` of the client whose pool has `num_threads` threads, made on first use. A
  // GPU has one client, whatever the number of threads.
  const PjrtClient& client(int num_threads, int ordinal) const;

  // Calls one entry of the plugin's table; throws kEngine with the plugin's message on failure.
  template <auto Entry, typename Args>
  void call(std::string_view name, Args& args) const {
    check((table_->*require<Entry>(name))(&args), name);
  }
  // Whether the plugin has that entry at all.
  template <auto Entry>
  bool has() const {
    const auto* field = &(table_->*Entry);
    const auto end = reinterpret_cast<const std::byte*>(field + 1);
    const auto reach = reinterpret_cast<const std::byte*>(table_) + table_->struct_size;
    return end <= reach && *field != nullptr;
  }
  // What an extension's entry gave.
  void check(PJRT_Error* error, std::string_view name) const;
  // Of a type; null where the plugin has none.
  const PJRT_Extension_Base* extension(PJRT_Extension_Type type) const;
  // Whether waiting for it would return at once.
  bool is_ready(PJRT_Event* event) const;
  // Waits for an event and throws its error.
  void await(PjrtEvent event, std::string_view what) const;
  PjrtDeleter deleter() const { return PjrtDeleter{this}; }

 private:
  template <auto Entry>
  auto require(std::string_view name) const {
    if (!has<Entry>()) missing(name);
    return Entry;
  }
  PJRT_Client* create_client(int num_threads) const;
  [[noreturn]] void missing(std::string_view name) const;

  Platform platform_;
  std::filesystem::path location_;
  const PJRT_Api* table_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<int, PJRT_Client*> clients_;  // by number of threads
  mutable std::map<std::pair<int, int>, std::unique_ptr<PjrtClient>> devices_;  // … and ordinal
};

// Fills in what every argument struct of the API begins with.
template <typename Args>
Args pjrt_args(std::size_t struct_size) {
  Args args{};
  args.struct_size = struct_size;
  return args;
}

// Throws kEngine in a process that was forked from one which had clients.
void refuse_after_fork();

// The serialised CompileOptionsProto for one replica, one partition on a device, and these flags.
std::string compile_options(const XlaFlags& flags, std::int64_t device_id);

}  // namespace xrt::xla
