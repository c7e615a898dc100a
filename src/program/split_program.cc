// SPDX-License-Identifier: Apache-2.0
#include "program/split_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "passes/row_wise.h"
#include "program/request_queue.h"
#include "program/rows.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Where the rows lie: an axis per input and output; -1: an input that has none.
struct RowAxes {
  std::string dimension;
  std::vector<int> inputs, outputs;
};

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "devices: the rows of a run cannot be shared: " + why);
}

RowAxes find_row_axes(const Graph& graph) {
  RowAxes axes;
  for (const ValueId v : graph.inputs()) {
    const Type& type = graph.type(v);
    if (!type.has_rank() || type.rank() == 0 || !(*type.shape)[0].is_symbol()) continue;
    axes.dimension = (*type.shape)[0].symbol();
    break;
  }
  if (axes.dimension.empty()) refuse("no input begins with an open dimension that has a name");
  const RowWise found = row_wise(graph, axes.dimension);
  if (!found) refuse(found.why_not);
  for (const ValueId v : graph.inputs()) {
    const Type& type = graph.type(v);
    int axis = -1;
    for (std::size_t d = 0; type.has_rank() && d < type.rank(); ++d) {
      if ((*type.shape)[d] == Dim(axes.dimension)) axis = static_cast<int>(d);
    }
    if (axis >= 0 && !has_whole_bytes(type.dtype)) {
      refuse(fmt::format("input '{}' has elements smaller than a byte", graph.value(v).name));
    }
    axes.inputs.push_back(axis);
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId v = graph.outputs()[i];
    if (found.output_axes[i] < 0 || !has_whole_bytes(graph.type(v).dtype)) {
      refuse(fmt::format("output '{}' has no rows of '{}'", graph.value(v).name, axes.dimension));
    }
    axes.outputs.push_back(found.output_axes[i]);
  }
  return axes;
}

// The rows of one device.
struct Share {
  std::int64_t first = 0, count = 0;
};

std::vector<Share> shares_of(std::int64_t rows, std::size_t devices) {
  const auto parts = static_cast<std::int64_t>(devices);
  std::vector<Share> shares;
  std::int64_t first = 0;
  for (std::int64_t d = 0; d < parts; ++d) {
    const std::int64_t count = rows / parts + (d < rows % parts ? 1 : 0);
    // A run of no rows is one all the same.
    if (count > 0 || d == 0) shares.push_back({first, count});
    first += count;
  }
  return shares;
}

class SplitProgram final : public Program {
 public:
  SplitProgram(const ProgramOptions& options, std::vector<std::shared_ptr<Program>> copies,
               RowAxes axes)
      : devices_(options.devices), copies_(std::move(copies)), axes_(std::move(axes)) {
    requests_ = queue_of(*this, streams(), options);
  }
  ~SplitProgram() override { requests_.reset(); }

  const std::vector<Port>& inputs() const override { return copies_.front()->inputs(); }
  const std::vector<Port>& outputs() const override { return copies_.front()->outputs(); }

  using Program::run;
  void run(std::span<const Data> inputs, std::vector<Data>& outputs,
           const RunOptions& options) override {
    if (options.results == Results::kDevice) {
      throw Error(ErrorCode::kInvalidArgument,
                  "results of several devices lie on the host: Results::kDevice cannot be had");
    }
    const std::int64_t rows = count_rows(inputs);
    const std::vector<Share> shares = shares_of(rows, copies_.size());
    if (rows < 0 || shares.size() == 1) {  // what is wrong is said by the program itself
      return run_on(0, [&] { copies_.front()->run(inputs, outputs, options); });
    }
    std::vector<Data> whole = outputs;
    whole.resize(this->outputs().size());
    check_rows(whole, rows);
    allocate(whole, rows);
    std::vector<std::vector<Data>> parts;
    parts.reserve(shares.size());
    for (const Share& share : shares) parts.push_back(parts_of(whole, axes_.outputs, share));
    std::vector<std::pair<std::size_t, Request>> others;  // by device
    std::exception_ptr failure;
    const auto attempt = [&](std::size_t device, const auto& work) {
      try {
        run_on(device, work);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    };
    for (std::size_t d = 1; d < shares.size(); ++d) {
      attempt(d, [&] {
        others.emplace_back(
            d, copies_[d]->submit(parts_of(inputs, axes_.inputs, shares[d]), options, parts[d]));
      });
    }
    attempt(0,
            [&] { copies_[0]->run(parts_of(inputs, axes_.inputs, shares[0]), parts[0], options); });
    // All have ended before this returns, unless it is interrupted.
    for (const auto& [d, request] : others) {
      attempt(d, [&, device = d, &own = request] { parts[device] = own.get(); });
    }
    if (failure) std::rethrow_exception(failure);
    outputs = joined(std::move(whole), parts, shares, rows);
  }

  Request submit(std::vector<Data> inputs, const RunOptions& options, std::vector<Data> outputs,
                 std::function<void(const Request&)> done) override {
    return requests_->add(std::move(inputs), std::move(outputs), options, std::move(done));
  }
  int streams() const override { return copies_.front()->streams(); }

  Explanation explain() override {
    Explanation explanation = copies_.front()->explain();
    explanation.notes.push_back(fmt::format("{} share the rows of '{}'; this is the program of {}",
                                            fmt::join(devices_, ", "), axes_.dimension,
                                            devices_.front()));
    return explanation;
  }
  void enable_profile(bool on) override {
    for (const auto& copy : copies_) copy->enable_profile(on);
  }
  std::vector<LaunchEvent> profile() const override {
    return events([](Program& copy) { return copy.profile(); });
  }
  std::vector<LaunchEvent> take_profile() override {
    return events([](Program& copy) { return copy.take_profile(); });
  }
  std::string graph_text() const override { return copies_.front()->graph_text(); }

 private:
  template <typename Work>
  void run_on(std::size_t device, const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("device {}: {}", devices_[device], error.what()));
    }
  }

  // -1: the inputs are not what the program takes.
  std::int64_t count_rows(std::span<const Data> inputs) const {
    if (inputs.size() != axes_.inputs.size()) return -1;
    std::int64_t rows = -1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (axes_.inputs[i] < 0) continue;
      const auto axis = static_cast<std::size_t>(axes_.inputs[i]);
      if (!inputs[i].is_tensor() || inputs[i].tensor().rank() <= axis) return -1;
      const Tensor& tensor = inputs[i].tensor();
      if (!tensor.on_host()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("input '{}' lies on {}: what several devices share is given on the "
                                "host",
                                this->inputs()[i].name, to_string(tensor.device())));
      }
      if (rows >= 0 && tensor.dims()[axis] != rows) return -1;
      rows = tensor.dims()[axis];
    }
    return rows;
  }

  // A part of memory for more rows would be right for the program of a device.
  void check_rows(std::span<const Data> given, std::int64_t rows) const {
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes_.outputs[i]);
      if (!given[i].is_tensor()) continue;
      const Tensor& tensor = given[i].tensor();
      if (tensor.rank() > axis && tensor.dims()[axis] == rows) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("output '{}' has {} rows along axis {}, memory was given for {}",
                              outputs()[i].name, rows, axis, to_string(tensor.dims())));
    }
  }

  // Memory for outputs of which all but the rows is declared, and whose rows lie together.
  void allocate(std::vector<Data>& whole, std::int64_t rows) const {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Type& type = outputs()[i].type;
      if (!whole[i].is_none() || axes_.outputs[i] != 0 || !type.has_rank()) continue;
      Dims dims{rows};
      for (std::size_t d = 1; d < type.rank(); ++d) {
        const Dim& dim = (*type.shape)[d];
        if (!dim.is_known()) break;
        dims.push_back(dim.value());
      }
      if (dims.size() == type.rank()) whole[i] = Tensor::allocate(type.dtype, std::move(dims));
    }
  }

  static std::vector<Data> parts_of(std::span<const Data> whole, const std::vector<int>& axes,
                                    const Share& share) {
    std::vector<Data> parts(whole.begin(), whole.end());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (axes[i] < 0 || !parts[i].is_tensor()) continue;
      const auto axis = static_cast<std::size_t>(axes[i]);
      parts[i] = rows_of(parts[i].tensor(), axis, share.first, share.count);
    }
    return parts;
  }

  std::vector<Data> joined(std::vector<Data> whole, const std::vector<std::vector<Data>>& parts,
                           const std::vector<Share>& shares, std::int64_t rows) const {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes_.outputs[i]);
      for (std::size_t d = 0; d < shares.size(); ++d) {
        const Tensor& part = parts[d][i].tensor();
        if (!whole[i].is_tensor()) {
          Dims dims = part.dims();
          dims[axis] = rows;
          whole[i] = Tensor::allocate(part.dtype(), std::move(dims));
        }
        Tensor& all = whole[i].tensor();
        const RowLayout layout = row_layout(all, axis);
        const auto* place = static_cast<const std::byte*>(all.raw()) +
                            static_cast<std::size_t>(shares[d].first) * layout.row_bytes;
        if (layout.outer == 1 && part.raw() == place) continue;  // written in place
        copy_rows(part, all, axis, shares[d].first, shares[d].count);
      }
    }
    return whole;
  }

  template <typename Take>
  std::vector<LaunchEvent> events(const Take& take) const {
    std::vector<LaunchEvent> all;
    for (const auto& copy : copies_) {
      std::vector<LaunchEvent> own = take(*copy);
      std::move(own.begin(), own.end(), std::back_inserter(all));
    }
    return all;
  }

  const std::vector<std::string> devices_;
  const std::vector<std::shared_ptr<Program>> copies_;
  const RowAxes axes_;
  std::unique_ptr<RequestQueue> requests_;
};

}  // namespace

std::shared_ptr<Program> make_split_program(
    const ProgramOptions& options,
    const std::function<std::shared_ptr<Program>(const ProgramOptions& options)>& load,
    const std::function<std::shared_ptr<const Graph>(const Program& program)>& graph_of) {
  const std::vector<std::string>& devices = options.devices;
  if (options.device != ProgramOptions().device) {
    throw Error(ErrorCode::kInvalidArgument, "device and devices: one of them");
  }
  for (const std::string& device : devices) {
    if (std::count(devices.begin(), devices.end(), device) == 1) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("devices: '{}' is there twice; streams has a device do more at once", device));
  }
  const auto load_on = [&](const std::string& device) {
    ProgramOptions own = options;
    own.device = device;
    own.devices.clear();
    return load(own);
  };
  if (devices.size() == 1) return load_on(devices.front());
  if (options.use_int8) {
    throw Error(ErrorCode::kUnsupported,
                "devices: not with use_int8, which measures first; `xrt quantize` writes a model "
                "for them");
  }
  std::vector<std::shared_ptr<Program>> copies{load_on(devices.front())};
  RowAxes axes = find_row_axes(*graph_of(*copies.front()));
  for (std::size_t d = 1; d < devices.size(); ++d) copies.push_back(load_on(devices[d]));
  return std::make_shared<SplitProgram>(options, std::move(copies), std::move(axes));
}

}  // namespace xrt
