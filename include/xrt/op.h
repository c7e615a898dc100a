// SPDX-License-Identifier: Apache-2.0
// Ops of one's own: a schema, a kernel that the native engine runs, and how other engines take it.
//
//   xrt::OpDefinition op;
//   op.domain = "my";
//   op.name = "Scale";
//   op.inputs = {{.name = "x"}};
//   op.outputs = {{.name = "y"}};
//   op.attributes = {{.name = "by", .value = 2.0F}};
//   op.create = [](const xrt::OpCall& call) -> xrt::OpKernel {
//     const float by = call.attribute<float>("by");
//     return [by](xrt::OpRun& run) {
//       const xrt::Tensor& x = run.input(0);
//       xrt::Tensor& y = run.output(0, x.dims());
//       …
//     };
//   };
//   op.body = "factor = Constant <value_float: float = @by> ()  y = Mul (x, factor)";
//   xrt::register_op(op);
//
// Models that import the domain then load, verify, infer shapes, print, run and export like any
// other. An op without a kernel is computed by its body, one without a body by its kernel alone.
//
// A library of ops exports
//
//   extern "C" void xrt_register_ops(xrt::OpRegistry* registry);
//
// and is loaded by load_op_library(), XRT_OP_PATH or `xrt run --op-library`.
//
// Thread-safety: registering calls may run at once, but not beside a thread that loads a model or
// makes a plan: register first, then load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "xrt/error.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt {

// Changes whenever a struct or class below changes shape; a library built for another one is
// refused.
inline constexpr std::uint32_t kOpAbi = 3;

struct OpParameter {
  std::string name;       // a C identifier
  bool optional = false;  // may be left out
  bool variadic = false;  // the last one only: any number from one on
  // Element types that it may have; empty: any.
  std::vector<DType> dtypes = {};
};

struct OpAttribute {
  std::string name;
  // int64, float, string, tensor or a list of the first three. Its kind is that of the attribute;
  // it is the value where a node leaves the attribute out.
  Attribute value;
  bool required = false;  // nodes may not leave it out: `value` only says the kind
};

// A node, as shape functions and kernels' makers see it; valid during the call.
struct OpCall {
  const Attributes& attributes;               // defaults filled in
  std::vector<Type> input_types = {};         // an undefined tensor type where an input is left out
  std::vector<const Tensor*> constants = {};  // values of inputs that are known already, else null

  // Of the attribute's own kind: std::int64_t, float, std::string, Tensor, std::vector of these.
  template <typename T>
  const T& attribute(std::string_view name) const {
    const auto found = attributes.find(name);
    const T* value = found == attributes.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the op has no attribute '" + std::string(name) + "' of that kind");
    }
    return *value;
  }
};

// One run of a kernel: what it reads and writes.
class XRT_API OpRun {
 public:
  virtual ~OpRun();
  virtual std::size_t input_count() const = 0;  // with those left out before the last
  virtual bool has_input(std::size_t i) const = 0;
  // Throws where the input is left out. Its memory is read-only and valid during the run.
  virtual const Tensor& input(std::size_t i) const = 0;
  virtual std::size_t output_count() const = 0;
  // Memory for the i-th output, uninitialised (strings are empty), of the dtype that was inferred.
  // To be called once for every output. kEngine where `dims` are not those that were inferred.
  virtual Tensor& output(std::size_t i, const Dims& dims) = 0;
  // The same where the shape function left the dtype open.
  virtual Tensor& output(std::size_t i, DType dtype, const Dims& dims) = 0;
  // Calls part(begin, end) for parts of [0, n) of at least `grain`, on the engine's threads.
  virtual void parallel_for(std::int64_t n, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& part) const = 0;
};

// Called by many threads at once.
using OpKernel = std::function<void(OpRun&)>;

struct OpDefinition {
  std::string domain;              // none of the standard's ("", "ai.onnx…"), nor "xrt"
  std::string name;                // a C identifier
  std::int64_t opset_version = 1;  // of the domain, from which on this definition holds
  // Of what kernel and shape function do: part of the keys of all caches, to be changed with them.
  // Empty: nothing is said, and plans of programs that may use the op are not kept on disk.
  std::string revision = {};
  std::vector<OpParameter> inputs = {}, outputs = {};
  std::vector<OpAttribute> attributes = {};
  // False: two runs may differ; such nodes are never folded or shared.
  bool deterministic = true;
  // One type per output. Absent: by the body; without one every output is as the first input.
  std::function<std::vector<Type>(const OpCall&)> infer = {};
  // The kernel for one node, made when its function is compiled. Absent: there must be a body.
  std::function<OpKernel(const OpCall&)> create = {};
  // Statements in ONNX's text form over the formal names of inputs and outputs; "@name" is the
  // value of an attribute. Engines that do not know the op compile these.
  std::string body = {};
  // The gradient, as statements of the same form: they may read the inputs, the outputs and, of
  // each output y, the gradient d_y, and make d_x for each input x that has a derivative. Absent:
  // by the body, through the gradients of its ops.
  std::string gradient = {};
  // As `body` for one engine, which gets this rather than `body`: engine → statements.
  std::map<std::string, std::string> lowerings = {};
  // Code in one engine's own language, made for each node from what `create` is called with: engine
  // → maker. "xla": StableHLO, a module or functions, whose @main takes the inputs that the node
  // has and returns its outputs. "tvm": Python that defines build(bb, *inputs, **attributes), which
  // returns Relax expressions (docs/guides/op.md). It is called when an engine is asked what it
  // supports, too.
  std::map<std::string, std::function<std::string(const OpCall&)>> code = {};
};

// kInvalidArgument for a second definition of one op and opset version, a reserved domain, an op
// without kernel and body, names that are no identifiers or appear twice, statements that cannot
// be read.
XRT_API void register_op(OpDefinition definition);

// Adds lowerings[engine] to an op that is registered; kInvalidArgument where it has one already.
XRT_API void register_lowering(std::string_view domain, std::string_view name,
                               std::string_view engine, std::string_view statements);

// Qualified names ("my.Scale") of all registered ops, sorted.
XRT_API std::vector<std::string> registered_ops();

// Handed to a library of ops. add() is register_op().
class XRT_API OpRegistry {
 public:
  virtual ~OpRegistry();
  // `abi` is always kOpAbi: it is compiled into the library and checked before anything is read.
  virtual void add(const OpDefinition& definition, std::uint32_t abi = kOpAbi) = 0;
};

using RegisterOpsFunction = void (*)(OpRegistry*);
inline constexpr const char* kRegisterOpsSymbol = "xrt_register_ops";

// Opens the library and registers its ops; their qualified names. A second call for one file does
// nothing. kNotFound for a missing file, kEngine, with the cause, for one that cannot be loaded or
// was built for another version of this interface.
XRT_API std::vector<std::string> load_op_library(const std::filesystem::path& file);
// Loads what XRT_OP_PATH names (files, or folders with libxrt_op_*.so; separated by ':') and is not
// loaded yet. Programs do this when they are loaded.
XRT_API void load_op_path();

}  // namespace xrt
