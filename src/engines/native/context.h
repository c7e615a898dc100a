// SPDX-License-Identifier: Apache-2.0
// What one run of a native executable writes to: its arena, and one slot per value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engines/native/kernel.h"
#include "xrt/engine.h"

namespace xrt::native {

enum class SlotKind : std::uint8_t {
  kInput,     // the caller's, valid during the run
  kConstant,  // shared with the graph
  kArena,     // at a planned place of the context's arena
  kDynamic,   // memory of its own, dropped after its last use
  kView,      // another value's memory under another shape
  kOutput,    // the caller's output entry
};

struct SlotPlan {
  SlotKind kind = SlotKind::kDynamic;
  DType dtype = DType::kUndefined;  // kArena
  Dims dims;                        // kArena
  std::size_t offset = 0;           // kArena
  Tensor constant;                  // kConstant
  std::int32_t lender = -1;         // the input whose memory it is, or that it is a view of
};

// Whose an input is.
enum class InputUse : std::uint8_t {
  kBorrowed,  // the caller's memory: what outlives the run is a copy
  kShared,    // a handle may outlive the run
  kGiven,     // and the value may be taken
};

class NativeContext final : public RunContext {
 public:
  NativeContext(std::span<const SlotPlan> plan, std::size_t arena_bytes);

  // Memory for a value about to be written.
  Tensor& prepare(std::int32_t slot, DType dtype, const Dims& dims);
  void prepare_view(std::int32_t slot, const Tensor& source, const Dims& dims);
  void store(std::int32_t slot, Data data);
  void set_input(std::int32_t slot, const Data* data, InputUse use) {
    values[slot] = data;
    uses_[slot] = use;
  }
  bool borrowed(std::int32_t slot) const {
    const std::int32_t lender = plan_[slot].lender;
    return lender >= 0 && uses_[lender] == InputUse::kBorrowed;
  }
  // A value that nothing reads any more. The handle goes with it where the context may give it.
  Data take(std::int32_t slot);
  Tensor& discard(DType dtype, const Dims& dims);
  std::byte* scratch(std::size_t bytes);
  void release(std::int32_t slot) { own_[slot] = Data(); }
  // After a run: drops what is not the context's own, so that no caller's memory is held.
  void finish();

  std::vector<const Data*> values;  // by slot: where to read
  std::vector<Data*> targets;       // by slot: where to write
  std::vector<std::unique_ptr<KernelState>> states;
  KernelContext kernel;

 private:
  // Memory for a value that has no place in the arena.
  Tensor take_block(DType dtype, const Dims& dims);

  std::span<const SlotPlan> plan_;
  std::vector<InputUse> uses_;  // by slot
  Tensor arena_;
  Tensor scratch_;
  // For take_block(): what nobody else holds is free. It stays from run to run, so that sizes that
  // change take no new pages.
  std::vector<Tensor> blocks_;
  std::vector<Tensor> discarded_;
  std::vector<Data> own_;
  std::vector<std::int32_t> displaced_;  // arena slots that hold other memory for this run
};

// A fresh tensor; kResource if it cannot fit this machine's memory.
Tensor allocate_checked(DType dtype, const Dims& dims);

}  // namespace xrt::native
