// SPDX-License-Identifier: Apache-2.0
// A function of a target that compiles whole models becomes one op, whose operands are what crosses
// the function's border.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "module.h"
#include "raise.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

struct Border {
  std::vector<int> inputs, outputs;  // storages
};

void add(std::vector<int>& to, int storage) {
  if (std::find(to.begin(), to.end(), storage) == to.end()) to.push_back(storage);
}

bool written_before(const Module& m, const ModuleFunction& f, int storage) {
  for (int i = 0; i < f.first_op; ++i) {
    const ModuleOp& op = m.ops[static_cast<std::size_t>(i)];
    const Operand& y = op.operands[static_cast<std::size_t>(op.output)];
    if (y.at == Operand::At::kStorage && y.index == storage) return true;
  }
  return std::any_of(m.steps.begin(), m.steps.end(), [&](const ModuleStep& s) {
    return s.function < 0 && s.to == storage &&
           s.time < m.ops[static_cast<std::size_t>(f.first_op)].time;
  });
}

Border border_of(const Module& m, const ModuleFunction& f) {
  std::set<int> written, read_outside;
  Border border;
  const auto visit = [&](const ModuleOp& op, const auto& read, const auto& write) {
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (op.operands[k].at != Operand::At::kStorage) continue;
      (static_cast<int>(k) == op.output ? write : read)(op.operands[k].index);
    }
  };
  const auto nothing = std::function<void(int)>([](int) {});
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    const int at = static_cast<int>(i);
    if (at >= f.first_op && at < f.first_op + f.op_count) continue;
    visit(m.ops[i], std::function<void(int)>([&](int s) { read_outside.insert(s); }), nothing);
  }
  for (const ModuleStep& s : m.steps) {
    if (s.function < 0) read_outside.insert(s.from);
  }
  for (int i = f.first_op; i < f.first_op + f.op_count; ++i) {
    const ModuleOp& op = m.ops[static_cast<std::size_t>(i)];
    visit(op, std::function<void(int)>([&](int s) {
            if (!written.contains(s)) add(border.inputs, s);
          }),
          nothing);
    visit(op, nothing, std::function<void(int)>([&](int s) {
            const Storage& storage = m.storages[static_cast<std::size_t>(s)];
            if (!written.contains(s) && written_before(m, f, s)) {
              throw Error(ErrorCode::kUnsupported,
                          fmt::format("op '{}' writes a part of '{}' whose other parts another "
                                      "target has written; target '{}' runs whole models only",
                                      op.name, storage.name,
                                      m.targets[static_cast<std::size_t>(f.target)]->name()));
            }
            written.insert(s);
            if (read_outside.contains(s)) add(border.outputs, s);
          }));
  }
  return border;
}

Operand whole(const Module& m, int storage, DType dtype) {
  return {Operand::At::kStorage, storage, 0,
          storage_bytes(m, m.storages[static_cast<std::size_t>(storage)]), dtype};
}

ModuleOp merged(const Module& m, const ModuleFunction& f, const Border& border,
                const std::map<int, DType>& dtypes) {
  const ModuleOp& last = m.ops[static_cast<std::size_t>(f.first_op + f.op_count - 1)];
  ModuleOp op;
  op.kernel = XRT_K_MODEL;
  op.target = f.target;
  op.time = last.time;
  op.name = fmt::format("{} … {} ({} ops)", m.ops[static_cast<std::size_t>(f.first_op)].name,
                        last.name, f.op_count);
  const xrt_k_model p = {static_cast<std::int32_t>(border.inputs.size()),
                         static_cast<std::int32_t>(border.outputs.size())};
  op.params.resize(sizeof(p) / 4);
  std::memcpy(op.params.data(), &p, sizeof(p));
  for (const int s : border.inputs) op.operands.push_back(whole(m, s, dtypes.at(s)));
  for (const int s : border.outputs) op.operands.push_back(whole(m, s, dtypes.at(s)));
  op.output = static_cast<int>(op.operands.size()) - 1;
  for (int i = 0; i < f.op_count; ++i)
    op.work += m.ops[static_cast<std::size_t>(f.first_op + i)].work;
  if (op.operands.size() > XRT_MAX_OPERANDS) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{}: {} values cross the border of this part of the model for target "
                    "'{}'; the file has room for {}",
                    op.name, op.operands.size(),
                    m.targets[static_cast<std::size_t>(f.target)]->name(), XRT_MAX_OPERANDS));
  }
  return op;
}

}  // namespace

void merge_functions(Module& m) {
  std::vector<ModuleOp> ops;
  for (ModuleFunction& f : m.functions) {
    const Target& target = *m.targets[static_cast<std::size_t>(f.target)];
    const int first = static_cast<int>(ops.size());
    if (target.whole_functions()) {
      const Border border = border_of(m, f);
      std::map<int, DType> dtypes;
      for (int i = 0; i < f.op_count; ++i) {
        for (const Operand& o : m.ops[static_cast<std::size_t>(f.first_op + i)].operands) {
          if (o.at == Operand::At::kStorage) dtypes.try_emplace(o.index, o.dtype);
        }
      }
      f.code = target.compile_model(raise(m, f, border.inputs, border.outputs));
      ops.push_back(merged(m, f, border, dtypes));
      f.op_count = 1;
    } else {
      for (int i = 0; i < f.op_count; ++i) {
        ops.push_back(m.ops[static_cast<std::size_t>(f.first_op + i)]);
      }
    }
    f.first_op = first;
  }
  if (std::none_of(m.functions.begin(), m.functions.end(), [&](const ModuleFunction& f) {
        return m.targets[static_cast<std::size_t>(f.target)]->whole_functions();
      })) {
    return;
  }
  // Constants that only the merged ops read are part of their code now.
  std::vector<std::string> constants;
  std::map<int, int> moved;
  for (ModuleOp& op : ops) {
    for (Operand& o : op.operands) {
      if (o.at != Operand::At::kConstant) continue;
      const auto [at, fresh] = moved.try_emplace(o.index, static_cast<int>(constants.size()));
      if (fresh) constants.push_back(std::move(m.constants[static_cast<std::size_t>(o.index)]));
      o.index = at->second;
    }
  }
  m.constants = std::move(constants);
  m.ops = std::move(ops);
}

}  // namespace xrt::lite
