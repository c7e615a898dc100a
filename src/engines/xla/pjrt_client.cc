// SPDX-License-Identifier: Apache-2.0
// What a PJRT plugin holds: its client on one device, buffers and executables.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/spare_threads.h"
#include "device/cuda_driver.h"
#include "engines/xla/in_flight.h"
#include "engines/xla/pjrt_api.h"
#include "xrt/error.h"

namespace xrt::xla {

// --- PjrtDeleter --------------------------------------------------------------------------------

namespace {

constexpr std::size_t kAlignment = 64;  // what XLA:CPU asks of memory it reads in place

// A destroy call that fails leaves nothing to be done but to say so: what it held is lost.
template <auto Entry, typename Args>
void destroy(const PjrtApi* api, std::string_view name, Args args) noexcept {
  try {
    api->call<Entry>(name, args);
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

}  // namespace

void PjrtDeleter::operator()(PJRT_Buffer* buffer) const {
  auto args = pjrt_args<PJRT_Buffer_Destroy_Args>(PJRT_Buffer_Destroy_Args_STRUCT_SIZE);
  args.buffer = buffer;
  destroy<&PJRT_Api::PJRT_Buffer_Destroy>(api, "PJRT_Buffer_Destroy", args);
}

void PjrtDeleter::operator()(PJRT_Event* event) const {
  auto args = pjrt_args<PJRT_Event_Destroy_Args>(PJRT_Event_Destroy_Args_STRUCT_SIZE);
  args.event = event;
  destroy<&PJRT_Api::PJRT_Event_Destroy>(api, "PJRT_Event_Destroy", args);
}

void PjrtDeleter::operator()(PJRT_LoadedExecutable* executable) const {
  auto args =
      pjrt_args<PJRT_LoadedExecutable_Destroy_Args>(PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE);
  args.executable = executable;
  destroy<&PJRT_Api::PJRT_LoadedExecutable_Destroy>(api, "PJRT_LoadedExecutable_Destroy", args);
}

void PjrtDeleter::operator()(PJRT_Executable* executable) const {
  auto args = pjrt_args<PJRT_Executable_Destroy_Args>(PJRT_Executable_Destroy_Args_STRUCT_SIZE);
  args.executable = executable;
  destroy<&PJRT_Api::PJRT_Executable_Destroy>(api, "PJRT_Executable_Destroy", args);
}

// --- PjrtClient ---------------------------------------------------------------------------------

PjrtClient::PjrtClient(const PjrtApi& api, PJRT_Client* client, int ordinal, int num_threads)
    : api_(api),
      client_(client),
      num_threads_(num_threads),
      ordinal_(ordinal),
      in_flight_(std::make_unique<InFlight>()) {
  auto devices = pjrt_args<PJRT_Client_AddressableDevices_Args>(
      PJRT_Client_AddressableDevices_Args_STRUCT_SIZE);
  devices.client = client_;
  api_.call<&PJRT_Api::PJRT_Client_AddressableDevices>("PJRT_Client_AddressableDevices", devices);
  if (devices.num_addressable_devices == 0) {
    throw Error(ErrorCode::kEngine,
                fmt::format("PJRT plugin {} offers no device", api_.location().string()));
  }
  if (static_cast<std::size_t>(ordinal) >= devices.num_addressable_devices) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("XLA: there is no device {}; there are {}",
                                                         ordinal, devices.num_addressable_devices));
  }
  device_ = devices.addressable_devices[ordinal];
  auto description =
      pjrt_args<PJRT_Device_GetDescription_Args>(PJRT_Device_GetDescription_Args_STRUCT_SIZE);
  description.device = device_;
  api_.call<&PJRT_Api::PJRT_Device_GetDescription>("PJRT_Device_GetDescription", description);
  auto id = pjrt_args<PJRT_DeviceDescription_Id_Args>(PJRT_DeviceDescription_Id_Args_STRUCT_SIZE);
  id.device_description = description.device_description;
  api_.call<&PJRT_Api::PJRT_DeviceDescription_Id>("PJRT_DeviceDescription_Id", id);
  device_id_ = id.id;
  auto kind =
      pjrt_args<PJRT_DeviceDescription_Kind_Args>(PJRT_DeviceDescription_Kind_Args_STRUCT_SIZE);
  kind.device_description = description.device_description;
  api_.call<&PJRT_Api::PJRT_DeviceDescription_Kind>("PJRT_DeviceDescription_Kind", kind);
  device_kind_.assign(kind.device_kind, kind.device_kind_size);
  auto name = pjrt_args<PJRT_Client_PlatformName_Args>(PJRT_Client_PlatformName_Args_STRUCT_SIZE);
  name.client = client_;
  api_.call<&PJRT_Api::PJRT_Client_PlatformName>("PJRT_Client_PlatformName", name);
  platform_.assign(name.platform_name, name.platform_name_size);
  if (platform_ != "cpu") {
    const PJRT_Extension_Base* found = api_.extension(PJRT_Extension_Type_Stream);
    if (found != nullptr && found->struct_size >= sizeof(StreamExtension)) {
      streams_ = reinterpret_cast<const StreamExtension*>(found);
    }
  }
}

PjrtClient::~PjrtClient() = default;

PjrtLoadedExecutable PjrtClient::compile(const std::string& text, const XlaFlags& flags) const {
  // A pool of the compiler's own: a thread of it that cannot be started ends the process.
  if (num_threads_ > 0) require_threads(num_threads_);
  const std::string options = compile_options(flags, device_id_);
  static constexpr std::string_view kFormat = "mlir";
  auto program = pjrt_args<PJRT_Program>(PJRT_Program_STRUCT_SIZE);
  program.code = const_cast<char*>(text.data());  // read only for compilation
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  auto args = pjrt_args<PJRT_Client_Compile_Args>(PJRT_Client_Compile_Args_STRUCT_SIZE);
  args.client = client_;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  api_.call<&PJRT_Api::PJRT_Client_Compile>("PJRT_Client_Compile", args);
  return {args.executable, api_.deleter()};
}

PjrtLoadedExecutable PjrtClient::deserialize(std::string_view bytes) const {
  auto args = pjrt_args<PJRT_Executable_DeserializeAndLoad_Args>(
      PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE);
  args.client = client_;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  api_.call<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>("PJRT_Executable_DeserializeAndLoad",
                                                           args);
  return {args.loaded_executable, api_.deleter()};
}

namespace {

PjrtExecutable unloaded(const PjrtApi& api, PJRT_LoadedExecutable* executable) {
  auto args = pjrt_args<PJRT_LoadedExecutable_GetExecutable_Args>(
      PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE);
  args.loaded_executable = executable;
  api.call<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>("PJRT_LoadedExecutable_GetExecutable",
                                                           args);
  return {args.executable, api.deleter()};
}

}  // namespace

std::string PjrtClient::serialize(PJRT_LoadedExecutable* executable) const {
  const PjrtExecutable plain = unloaded(api_, executable);
  auto args = pjrt_args<PJRT_Executable_Serialize_Args>(PJRT_Executable_Serialize_Args_STRUCT_SIZE);
  args.executable = plain.get();
  api_.call<&PJRT_Api::PJRT_Executable_Serialize>("PJRT_Executable_Serialize", args);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

std::size_t PjrtClient::temporary_bytes(PJRT_LoadedExecutable* executable) const {
  if (!api_.has<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>()) return 0;
  const PjrtExecutable plain = unloaded(api_, executable);
  auto args = pjrt_args<PJRT_Executable_GetCompiledMemoryStats_Args>(
      PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE);
  args.executable = plain.get();
  api_.call<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>(
      "PJRT_Executable_GetCompiledMemoryStats", args);
  return static_cast<std::size_t>(args.temp_size_in_bytes);
}

PjrtBuffer PjrtClient::buffer_from_host(const void* data, PJRT_Buffer_Type type, const Dims& dims,
                                        HostMemory memory) const {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
  auto args = pjrt_args<PJRT_Client_BufferFromHostBuffer_Args>(
      PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE);
  args.client = client_;
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.device = device_;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  if (platform_ != "cpu") {
    // The device has memory of its own: what may be borrowed is copied while others compute.
    if (memory != HostMemory::kDuringCall) {
      args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    }
  } else if (aligned && memory == HostMemory::kBorrowed) {
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  } else if (aligned && memory == HostMemory::kDonated) {
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  api_.call<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>("PJRT_Client_BufferFromHostBuffer", args);
  PjrtBuffer buffer(args.buffer, api_.deleter());
  PjrtEvent done(args.done_with_host_buffer, api_.deleter());
  if (args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    api_.await(std::move(done), "PJRT_Client_BufferFromHostBuffer");
  }
  return buffer;
}

PjrtBuffer PjrtClient::view_of_device(void* data, PJRT_Buffer_Type type, const Dims& dims,
                                      std::intptr_t written_on) const {
  auto args = pjrt_args<PJRT_Client_CreateViewOfDeviceBuffer_Args>(
      PJRT_Client_CreateViewOfDeviceBuffer_Args_STRUCT_SIZE);
  args.client = client_;
  args.device_buffer_ptr = data;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.element_type = type;
  args.device = device_;
  // Plugins call it unasked. What owns the memory outlives the buffer: nothing is to be done.
  args.on_delete_callback = [](void*, void*) {};
  args.stream = written_on;
  api_.call<&PJRT_Api::PJRT_Client_CreateViewOfDeviceBuffer>("PJRT_Client_CreateViewOfDeviceBuffer",
                                                             args);
  return {args.buffer, api_.deleter()};
}

PjrtClient::Started PjrtClient::start(PJRT_LoadedExecutable* executable,
                                      const std::vector<PJRT_Buffer*>& arguments,
                                      std::size_t output_count,
                                      const std::vector<std::int64_t>& kept) const {
  auto options = pjrt_args<PJRT_ExecuteOptions>(PJRT_ExecuteOptions_STRUCT_SIZE);
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  std::vector<PJRT_Buffer*> results(output_count, nullptr);
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer** result_list = results.data();
  PJRT_Event* complete = nullptr;
  auto args =
      pjrt_args<PJRT_LoadedExecutable_Execute_Args>(PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE);
  args.executable = executable;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &result_list;
  args.device_complete_events = &complete;
  api_.call<&PJRT_Api::PJRT_LoadedExecutable_Execute>("PJRT_LoadedExecutable_Execute", args);
  Started started{{}, PjrtEvent(complete, api_.deleter())};
  started.results.reserve(output_count);
  for (PJRT_Buffer* buffer : results) started.results.emplace_back(buffer, api_.deleter());
  return started;
}

std::vector<PjrtBuffer> PjrtClient::execute(PJRT_LoadedExecutable* executable,
                                            const std::vector<PJRT_Buffer*>& arguments,
                                            std::size_t output_count,
                                            const std::vector<std::int64_t>& kept) const {
  Started started = start(executable, arguments, output_count, kept);
  api_.await(std::move(started.complete), "PJRT_LoadedExecutable_Execute");
  return std::move(started.results);
}

std::intptr_t PjrtClient::stream_to_follow(void* stream) const {
  StreamExtension::StreamOfDevice args{sizeof(args), device_, 0};
  api_.check(streams_->stream_of_device(&args), "PJRT_Get_Stream_For_External_Ready_Events");
  CudaDriver::get().follow(ordinal_, reinterpret_cast<void*>(args.stream), stream);
  return args.stream;
}

void PjrtClient::let_wait(void* stream, PJRT_Buffer* buffer) const {
  StreamExtension::BufferOnStream args{sizeof(args), reinterpret_cast<std::intptr_t>(stream),
                                       buffer};
  api_.check(streams_->let_wait(&args), "PJRT_Wait_Until_Buffer_Ready_On_Stream");
}

void PjrtClient::copy_to_host(PJRT_Buffer* buffer, void* destination, std::size_t bytes,
                              std::size_t rank) const {
  // Asked for explicitly: what XLA chose for a result need not be row-major.
  std::vector<std::int64_t> minor_to_major(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    minor_to_major[i] = static_cast<std::int64_t>(rank - 1 - i);
  }
  auto layout = pjrt_args<PJRT_Buffer_MemoryLayout>(PJRT_Buffer_MemoryLayout_STRUCT_SIZE);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = rank;
  auto args = pjrt_args<PJRT_Buffer_ToHostBuffer_Args>(PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE);
  args.src = buffer;
  args.host_layout = &layout;
  args.dst = destination;
  args.dst_size = bytes;
  api_.call<&PJRT_Api::PJRT_Buffer_ToHostBuffer>("PJRT_Buffer_ToHostBuffer", args);
  api_.await(PjrtEvent(args.event, api_.deleter()), "PJRT_Buffer_ToHostBuffer");
}

const void* PjrtClient::host_address(PJRT_Buffer* buffer) const {
  if (platform_ != "cpu" || !api_.has<&PJRT_Api::PJRT_Buffer_UnsafePointer>()) return nullptr;
  auto args = pjrt_args<PJRT_Buffer_UnsafePointer_Args>(PJRT_Buffer_UnsafePointer_Args_STRUCT_SIZE);
  args.buffer = buffer;
  api_.call<&PJRT_Api::PJRT_Buffer_UnsafePointer>("PJRT_Buffer_UnsafePointer", args);
  return reinterpret_cast<const void*>(args.buffer_pointer);
}

PjrtClient::Lent PjrtClient::lend(PjrtBuffer buffer) const {
  auto hold = pjrt_args<PJRT_Buffer_IncreaseExternalReferenceCount_Args>(
      PJRT_Buffer_IncreaseExternalReferenceCount_Args_STRUCT_SIZE);
  hold.buffer = buffer.get();
  api_.call<&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount>(
      "PJRT_Buffer_IncreaseExternalReferenceCount", hold);
  PJRT_Buffer* raw = buffer.release();
  const std::shared_ptr<const void> owner(
      static_cast<const void*>(raw), [api = &api_, raw](const void*) {
        auto args = pjrt_args<PJRT_Buffer_DecreaseExternalReferenceCount_Args>(
            PJRT_Buffer_DecreaseExternalReferenceCount_Args_STRUCT_SIZE);
        args.buffer = raw;
        destroy<&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount>(
            api, "PJRT_Buffer_DecreaseExternalReferenceCount", args);
        PjrtDeleter{api}(raw);
      });
  auto args = pjrt_args<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>(
      PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args_STRUCT_SIZE);
  args.buffer = raw;
  api_.call<&PJRT_Api::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(
      "PJRT_Buffer_OpaqueDeviceMemoryDataPointer", args);
  return {args.device_memory_ptr, owner};
}

Device PjrtClient::device() const {
  if (platform_ == "cpu") return {};
  return {DeviceKind::kCuda, ordinal_};
}

}  // namespace xrt::xla
