// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engines/xla/in_flight.h"
#include "xrt/error.h"

namespace xrt::xla {

namespace {

constexpr std::string_view kMagic = "XRTXLA2\n";

// Where one input lay lately: a caller that is ahead of the device has several sets of values.
constexpr std::size_t kViewsPerInput = 4;

// A function over less memory is not worth dividing, and each run computes in one thread.
constexpr std::size_t kSmallBytes = 64 << 10;

constexpr std::uintptr_t kViewAlignment = 64;  // of memory that XLA reads where it lies

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kViewAlignment == 0;
}

// Of the function and of the kind of device that it is compiled for.
std::string digest_of(const Module& module, const PjrtClient& client) {
  const std::string text = client.device_kind() + "\n" + module.text;
  return hash_bytes(text.data(), text.size()).hex();
}

// One element per byte from `bits` per element, low bits first.
Tensor unpack(const Tensor& packed) {
  const int bits = bit_width(packed.dtype());
  const int per_byte = 8 / bits;
  const bool is_signed = is_signed_integer(packed.dtype());
  Tensor out = Tensor::allocate(border_dtype(packed.dtype()), packed.dims());
  const auto* source = packed.data<std::uint8_t>();
  auto* target = out.data<std::uint8_t>();
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    int value = source[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1);
    if (is_signed && (value >> (bits - 1)) != 0) value -= 1 << bits;
    target[i] = static_cast<std::uint8_t>(value);
  }
  return out;
}

void pack(const Tensor& bytes, Tensor& packed) {
  const int bits = bit_width(packed.dtype());
  const int per_byte = 8 / bits;
  std::memset(packed.raw(), 0, packed.bytes());
  auto* target = packed.data<std::uint8_t>();
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    const int value = bytes.data<std::uint8_t>()[i] & ((1 << bits) - 1);
    target[i / per_byte] |= static_cast<std::uint8_t>(value << (i % per_byte * bits));
  }
}

}  // namespace

DType border_dtype(DType dtype) {
  if (!is_packed(dtype)) return dtype;
  return is_signed_integer(dtype) ? DType::kInt8 : DType::kUInt8;
}

PJRT_Buffer_Type pjrt_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return PJRT_Buffer_Type_F32;
    case DType::kUInt8:
      return PJRT_Buffer_Type_U8;
    case DType::kInt8:
      return PJRT_Buffer_Type_S8;
    case DType::kUInt16:
      return PJRT_Buffer_Type_U16;
    case DType::kInt16:
      return PJRT_Buffer_Type_S16;
    case DType::kInt32:
      return PJRT_Buffer_Type_S32;
    case DType::kInt64:
      return PJRT_Buffer_Type_S64;
    case DType::kBool:
      return PJRT_Buffer_Type_PRED;
    case DType::kFloat16:
      return PJRT_Buffer_Type_F16;
    case DType::kFloat64:
      return PJRT_Buffer_Type_F64;
    case DType::kUInt32:
      return PJRT_Buffer_Type_U32;
    case DType::kUInt64:
      return PJRT_Buffer_Type_U64;
    case DType::kComplex64:
      return PJRT_Buffer_Type_C64;
    case DType::kComplex128:
      return PJRT_Buffer_Type_C128;
    case DType::kBFloat16:
      return PJRT_Buffer_Type_BF16;
    case DType::kFloat8E4M3FN:
      return PJRT_Buffer_Type_F8E4M3FN;
    case DType::kFloat8E4M3FNUZ:
      return PJRT_Buffer_Type_F8E4M3FNUZ;
    case DType::kFloat8E5M2:
      return PJRT_Buffer_Type_F8E5M2;
    case DType::kFloat8E5M2FNUZ:
      return PJRT_Buffer_Type_F8E5M2FNUZ;
    case DType::kFloat8E8M0:
      return PJRT_Buffer_Type_F8E8M0FNU;
    default:
      break;
  }
  throw Error(ErrorCode::kInternal,
              fmt::format("XLA: a buffer of {} was asked for", to_string(dtype)));
}

XlaExecutable::XlaExecutable(const PjrtClient& client, PjrtLoadedExecutable executable,
                             Module module, bool follows_stream, int streams)
    : client_(client),
      executable_(std::move(executable)),
      module_(std::move(module)),
      follows_stream_(follows_stream && client.follows_streams()),
      streams_(streams) {
  for (HloWeight& weight : module_.weights) {
    Tensor tensor = weight.make();
    weight.make = nullptr;
    if (tensor.dtype() != weight.dtype || tensor.dims() != weight.dims) {
      throw Error(
          ErrorCode::kInternal,
          fmt::format("XLA: a weight is {}{}, not {}{}", to_string(tensor.dtype()),
                      to_string(tensor.dims()), to_string(weight.dtype), to_string(weight.dims)));
    }
    weight_buffers_.push_back(client_.buffer_from_host(tensor.raw(), pjrt_type(tensor.dtype()),
                                                       tensor.dims(), HostMemory::kBorrowed));
    weight_bytes_ += tensor.bytes();
    weights_.push_back(std::move(tensor));
  }
  workspace_bytes_ = client_.temporary_bytes(executable_.get());
  std::size_t bytes = weight_bytes_ + workspace_bytes_;
  for (const auto* ports : {&module_.inputs, &module_.outputs}) {
    for (const Module::Port& port : *ports) {
      bytes += static_cast<std::size_t>(element_count(port.dims) * bit_width(port.dtype)) / 8;
    }
  }
  is_small_ = bytes <= kSmallBytes;
}

void XlaExecutable::check_input(const Module::Port& port, const Tensor& tensor) const {
  if (tensor.dtype() != port.dtype || tensor.dims() != port.dims) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("XLA: '{}' is {}{}, but was compiled for {}{}", port.name,
                            to_string(tensor.dtype()), to_string(tensor.dims()),
                            to_string(port.dtype), to_string(port.dims)));
  }
  if (tensor.device() != Device{} && tensor.device() != client_.device()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("XLA: '{}' lies on {}, but was compiled for {}", port.name,
                            to_string(tensor.device()), to_string(client_.device())));
  }
}

PjrtBuffer XlaExecutable::argument(const Module::Port& port, const Tensor& tensor,
                                   std::vector<Tensor>& keep, std::intptr_t written_on,
                                   bool waits) const {
  check_input(port, tensor);
  keep.push_back(is_packed(port.dtype) ? unpack(tensor) : tensor);
  if (!tensor.on_host() && tensor.count() > 0) {
    Tensor& view = keep.back();
    // Part of another tensor, at an address that kernels must not assume.
    if (!is_aligned(view.raw())) view = view.clone();
    return client_.view_of_device(view.raw(), pjrt_type(view.dtype()), view.dims(), written_on);
  }
  const Tensor& bytes = keep.back();
  const HostMemory memory = port.donated ? HostMemory::kDonated : HostMemory::kBorrowed;
  return client_.buffer_from_host(bytes.raw(), pjrt_type(bytes.dtype()), bytes.dims(),
                                  waits ? memory : HostMemory::kDuringCall);
}

std::shared_ptr<PJRT_Buffer> XlaExecutable::known_view(std::size_t input,
                                                       const Tensor& tensor) const {
  check_input(module_.inputs[input], tensor);
  const std::lock_guard lock(views_mutex_);
  views_.resize(module_.inputs.size());
  std::vector<View>& known = views_[input];
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const View& view) { return view.address == tensor.raw(); });
  if (found != known.end()) {
    std::rotate(found, found + 1, known.end());
  } else {
    if (known.size() == kViewsPerInput) known.erase(known.begin());
    std::vector<Tensor> keep;
    known.push_back({tensor.raw(), argument(module_.inputs[input], tensor, keep)});
  }
  return known.back().buffer;
}

PjrtClient::Started XlaExecutable::start_behind(
    void* stream, const std::vector<PJRT_Buffer*>& arguments,
    const std::vector<std::int64_t>& not_donated) const {
  PjrtClient::Started started =
      client_.start(executable_.get(), arguments, module_.outputs.size(), not_donated);
  if (started.results.empty()) return started;
  try {
    // One event, at the end of the run, says of all its results that they are written.
    client_.let_wait(stream, started.results.front().get());
  } catch (...) {  // nothing may read the arguments any longer; why it failed is what counts
    while (!client_.api().is_ready(started.complete.get())) std::this_thread::yield();
    throw;
  }
  return started;
}

void XlaExecutable::run_behind(void* stream, std::span<const Data> inputs,
                               std::span<Data> outputs) const {
  // Let go of at the end, when the device has something to do.
  std::vector<InFlight::Run> ended = client_.in_flight().settle(client_.api());
  const auto is_misaligned = [](const Data& input) {
    const Tensor& tensor = input.tensor();
    return !tensor.on_host() && !is_aligned(tensor.raw());
  };
  const bool has_copies = std::any_of(inputs.begin(), inputs.end(), is_misaligned);
  if (has_copies) CudaDriver::get().synchronize(client_.device().ordinal, stream);
  InFlight::Run run;
  run.function = module_.name;
  run.arguments.reserve(inputs.size());
  std::vector<Tensor> keep;
  keep.reserve(inputs.size());
  std::vector<PJRT_Buffer*> arguments;
  arguments.reserve(inputs.size() + weight_buffers_.size());
  std::vector<std::int64_t> not_donated;
  bool waits_for_stream = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Module::Port& port = module_.inputs[i];
    const Tensor& tensor = inputs[i].tensor();
    if (tensor.on_host() || tensor.count() == 0) {
      run.arguments.push_back(argument(port, tensor, keep, 0, false));
    } else if (!waits_for_stream) {
      // Nothing of a run begins before all of its arguments are written: one that waits is enough.
      run.arguments.push_back(
          argument(port, tensor, keep, client_.stream_to_follow(stream), false));
      waits_for_stream = true;
    } else if (is_misaligned(inputs[i])) {
      run.arguments.push_back(argument(port, tensor, keep, 0, false));
    } else {
      run.arguments.push_back(known_view(i, tensor));
    }
    arguments.push_back(run.arguments.back().get());
    if (port.donated && !tensor.on_host()) not_donated.push_back(static_cast<std::int64_t>(i));
  }
  for (const PjrtBuffer& weight : weight_buffers_) arguments.push_back(weight.get());
  // The caller's memory is the caller's affair: what he does with it on his stream from now on
  // waits for this run.
  if (has_copies) run.copies = std::move(keep);

  PjrtClient::Started started;
  try {
    started = start_behind(stream, arguments, not_donated);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResource) throw;
    // Memory that others were done with may not have been given back yet.
    ended = client_.in_flight().settle(client_.api(), /*all=*/true);
    CudaDriver::get().release_all();
    started = start_behind(stream, arguments, not_donated);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    give_on_device(module_.outputs[k], std::move(started.results[k]), outputs[k]);
  }
  run.complete = std::move(started.complete);
  client_.in_flight().add(std::move(run));
  CudaDriver::get().release_finished();
}

ExecutableInfo XlaExecutable::info() const {
  ExecutableInfo info;
  info.workspace_bytes = workspace_bytes_;
  info.weight_bytes = weight_bytes_;
  info.device = client_.device();
  info.follows_stream = follows_stream_;
  if (!client_.device().is_host()) {
    // The caller waits, and nobody computes here.
    info.threads = 1;
    return info;
  }
  // All executables of a client share its pool. A run also has a thread of its own, which computes
  // what is not worth dividing: where there is much to divide, a few runs at once already keep the
  // pool and the cores busy.
  info.threads = client_.num_threads();
  info.pool = &client_;
  info.runs_at_once = is_small_ ? 0 : std::max(streams_, client_.num_threads() / 4);
  return info;
}

void XlaExecutable::run(const RunArgs& args) const {
  const RunData& options = data_of(args);
  const std::span<const Data> inputs = options.inputs;
  const std::span<Data> outputs = options.outputs;
  refuse_after_fork();
  if (inputs.size() != module_.inputs.size() || outputs.size() != module_.outputs.size()) {
    throw Error(ErrorCode::kInvalidArgument, "XLA: wrong count of inputs or outputs");
  }
  if (options.stream != nullptr && follows_stream_) {
    run_behind(options.stream, inputs, outputs);
    return;
  }
  std::vector<Tensor> keep;
  keep.reserve(inputs.size());
  std::vector<PjrtBuffer> buffers;
  buffers.reserve(inputs.size());
  std::vector<PJRT_Buffer*> arguments;
  arguments.reserve(inputs.size() + weight_buffers_.size());
  std::vector<std::int64_t> not_donated;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = inputs[i].tensor();
    buffers.push_back(argument(module_.inputs[i], tensor, keep));
    arguments.push_back(buffers.back().get());
    // Memory of others on the device is read only: some plugins take views for immutable. The new
    // value is copied over it.
    if (module_.inputs[i].donated && !tensor.on_host()) {
      not_donated.push_back(static_cast<std::int64_t>(i));
    }
  }
  for (const PjrtBuffer& weight : weight_buffers_) arguments.push_back(weight.get());

  if (client_.follows_streams()) CudaDriver::get().release_finished();
  std::vector<PjrtBuffer> results;
  try {
    results = client_.execute(executable_.get(), arguments, module_.outputs.size(), not_donated);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResource || !client_.follows_streams()) throw;
    CudaDriver::get().release_all();
    results = client_.execute(executable_.get(), arguments, module_.outputs.size(), not_donated);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Module::Port& port = module_.outputs[k];
    if (!outputs[k].is_none()) check_target(port, std::as_const(outputs[k]).tensor());
    const bool on_device = outputs[k].is_none()
                               ? k < options.on_device.size() && options.on_device[k]
                               : !std::as_const(outputs[k]).tensor().on_host();
    if (on_device && !is_packed(port.dtype)) {
      give_on_device(port, std::move(results[k]), outputs[k]);
    } else {
      give_on_host(port, results[k], keep, outputs[k]);
    }
  }
}

void XlaExecutable::check_target(const Module::Port& port, const Tensor& target) {
  if (target.dtype() == port.dtype && target.dims() == port.dims) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("XLA: output '{}' is {}{}, but its tensor is {}{}", port.name,
                          to_string(port.dtype), to_string(port.dims), to_string(target.dtype()),
                          to_string(target.dims())));
}

void XlaExecutable::give_on_device(const Module::Port& port, PjrtBuffer result,
                                   Data& output) const {
  PjrtClient::Lent lent;
  if (element_count(port.dims) > 0) lent = client_.lend(std::move(result));
  Tensor made =
      Tensor::wrap(port.dtype, port.dims, lent.address, std::move(lent.owner), client_.device());
  if (output.is_none()) {
    output = std::move(made);
  } else {
    copy_elements(made, output.tensor());
  }
}

void XlaExecutable::give_on_host(const Module::Port& port, PjrtBuffer& result,
                                 const std::vector<Tensor>& keep, Data& output) const {
  const bool packed = is_packed(port.dtype);
  const void* address = client_.host_address(result.get());
  if (!output.is_none()) {
    const Tensor& target = std::as_const(output).tensor();
    // A donated input's memory already is the output's.
    if (target.count() == 0 || (!packed && address == target.raw())) return;
  }
  // Memory that belongs to the caller must not be kept by a result: only XLA's own is wrapped.
  bool borrowed = false;
  for (const Tensor& input : keep) borrowed = borrowed || input.raw() == address;
  if (output.is_none() && !packed && !borrowed && address != nullptr &&
      element_count(port.dims) > 0) {
    std::shared_ptr<PJRT_Buffer> owner = std::move(result);
    output = Tensor::wrap(port.dtype, port.dims, const_cast<void*>(address), std::move(owner));
    return;
  }
  if (output.is_none()) output = Tensor::allocate(port.dtype, port.dims);
  Tensor& target = output.tensor();
  if (target.count() == 0) return;
  Tensor bytes = packed ? Tensor::allocate(border_dtype(port.dtype), port.dims) : target;
  if (address != nullptr) {
    std::memcpy(bytes.raw(), address, bytes.bytes());
  } else {
    client_.copy_to_host(result.get(), bytes.raw(), bytes.bytes(), bytes.rank());
  }
  if (packed) pack(bytes, target);
}

std::optional<std::string> XlaExecutable::serialize() const {
  std::string bytes(kMagic);
  bytes += digest_of(module_, client_);
  bytes += client_.serialize(executable_.get());
  return bytes;
}

std::string_view XlaExecutable::payload(std::string_view bytes, const Module& module,
                                        const PjrtClient& client) {
  const std::string digest = digest_of(module, client);
  if (!bytes.starts_with(kMagic) || bytes.substr(kMagic.size(), digest.size()) != digest) {
    throw Error(ErrorCode::kInvalidArgument,
                "XLA: these bytes were not compiled from this function for this device");
  }
  return bytes.substr(kMagic.size() + digest.size());
}

}  // namespace xrt::xla
