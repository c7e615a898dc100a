// SPDX-License-Identifier: Apache-2.0
// One compiled function: a PJRT executable, its weights in device buffers, and how the caller's
// tensors become its arguments.
//
// Inputs are read in place (kImmutableZeroCopy on the CPU, views on a GPU) where they are 64-byte
// aligned. A result goes straight into the caller's memory if it has some, else XLA's own buffer
// becomes the tensor. An aliased input on the host is donated: XLA writes the new value over the
// old one; one on a GPU has it copied over.
//
// A run on a GPU with a stream is not waited for: XLA's stream waits for the caller's and the
// caller's for XLA's.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/xla/hlo_builder.h"
#include "engines/xla/pjrt_api.h"
#include "xrt/engine.h"

namespace xrt::xla {

// A function as a StableHLO module, and what is needed to call it.
struct Module {
  struct Port {
    std::string name;
    DType dtype;  // the graph's; sub-byte types cross the border one element per byte
    Dims dims;
    bool donated = false;  // an input that an output replaces
  };
  std::string name;  // of the function
  std::string text;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<HloWeight> weights;
};

PJRT_Buffer_Type pjrt_type(DType dtype);
// The type that a value of `dtype` has as parameter or result of a module.
DType border_dtype(DType dtype);

class XlaExecutable : public Executable {
 public:
  // `follows_stream`: where the client can. `streams`: CompileOptions'.
  XlaExecutable(const PjrtClient& client, PjrtLoadedExecutable executable, Module module,
                bool follows_stream, int streams);

  ExecutableInfo info() const override;
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override;

  // The bytes of serialize() without our header, after checking that they belong to `module` and
  // to the client's kind of device.
  static std::string_view payload(std::string_view bytes, const Module& module,
                                  const PjrtClient& client);

 private:
  void check_input(const Module::Port& port, const Tensor& tensor) const;
  // `written_on` is as for PjrtClient::view_of_device(); with a stream nothing of the host's is
  // read after the call.
  PjrtBuffer argument(const Module::Port& port, const Tensor& tensor, std::vector<Tensor>& keep,
                      std::intptr_t written_on = 0, bool waits = true) const;
  // A view of an input on the device that is written already.
  std::shared_ptr<PJRT_Buffer> known_view(std::size_t input, const Tensor& tensor) const;
  // Results are given out on the device.
  void run_behind(void* stream, std::span<const Data> inputs, std::span<Data> outputs) const;
  // Queues a run behind the stream, and the stream behind the run.
  PjrtClient::Started start_behind(void* stream, const std::vector<PJRT_Buffer*>& arguments,
                                   const std::vector<std::int64_t>& not_donated) const;

  static void check_target(const Module::Port& port, const Tensor& target);
  // Gives a result out: as the tensor, or into the one that `output` holds.
  void give_on_device(const Module::Port& port, PjrtBuffer result, Data& output) const;
  void give_on_host(const Module::Port& port, PjrtBuffer& result, const std::vector<Tensor>& keep,
                    Data& output) const;

  const PjrtClient& client_;
  PjrtLoadedExecutable executable_;
  Module module_;
  std::vector<Tensor> weights_;  // what the buffers read
  std::vector<PjrtBuffer> weight_buffers_;
  std::size_t weight_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  bool follows_stream_;
  bool is_small_ = false;
  int streams_;
  // Views of memory that was given before: that of weights does not move, and a framework's
  // allocator gives out the same memory again.
  struct View {
    const void* address;
    std::shared_ptr<PJRT_Buffer> buffer;
  };
  mutable std::mutex views_mutex_;
  mutable std::vector<std::vector<View>> views_;  // per input, the one used last at the end
};

}  // namespace xrt::xla
