// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/cublaslt.h"

#include <map>
#include <mutex>
#include <string_view>

#include "device/cuda/libraries.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

constexpr std::string_view kTitle = "cuBLASLt";

// cudaDataType_t and cublasComputeType_t.
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14;
constexpr int kCompute32 = 68, kComputeTf32 = 77, kCompute64 = 70;
// cublasLtMatmulDescAttributes_t.
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8, kBiasType = 26;
// cublasLtMatrixLayoutAttribute_t.
constexpr int kBatchCount = 5, kBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t.
constexpr int kMostWorkspace = 1, kAlignmentOfA = 5, kAlignmentOfB = 6, kAlignmentOfC = 7;
// cublasLtEpilogue_t, of which kBias goes with the others.
constexpr int kNothing = 1, kRelu = 2, kBias = 4, kGelu = 32;
constexpr int kTransposed = 1;  // CUBLAS_OP_T

constexpr std::uint64_t kWorkspaceLimit = std::uint64_t{32} << 20;
constexpr int kMostWays = 8;

struct Library {
  int (*create)(void**);
  int (*operation_create)(void**, int, int);
  int (*operation_destroy)(void*);
  int (*operation_set)(void*, int, const void*, std::size_t);
  int (*layout_create)(void**, int, std::uint64_t, std::uint64_t, std::int64_t);
  int (*layout_destroy)(void*);
  int (*layout_set)(void*, int, const void*, std::size_t);
  int (*preference_create)(void**);
  int (*preference_destroy)(void*);
  int (*preference_set)(void*, int, const void*, std::size_t);
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, void*, int*);
  int (*multiply)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                  const void*, void*, void*, void*, const void*, void*, std::size_t, void*);
  std::size_t (*version)();
  std::string trouble;
};

const Library& library() {
  static const Library api = [] {
    Library l = {};
    try {
      void* file = open_library({.title = kTitle,
                                 .package = "nvidia-cublas",
                                 .variable = "XRT_CUBLASLT",
                                 .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
                                 .helpers = {}});
      resolve(file, kTitle, "cublasLtCreate", l.create);
      resolve(file, kTitle, "cublasLtMatmulDescCreate", l.operation_create);
      resolve(file, kTitle, "cublasLtMatmulDescDestroy", l.operation_destroy);
      resolve(file, kTitle, "cublasLtMatmulDescSetAttribute", l.operation_set);
      resolve(file, kTitle, "cublasLtMatrixLayoutCreate", l.layout_create);
      resolve(file, kTitle, "cublasLtMatrixLayoutDestroy", l.layout_destroy);
      resolve(file, kTitle, "cublasLtMatrixLayoutSetAttribute", l.layout_set);
      resolve(file, kTitle, "cublasLtMatmulPreferenceCreate", l.preference_create);
      resolve(file, kTitle, "cublasLtMatmulPreferenceDestroy", l.preference_destroy);
      resolve(file, kTitle, "cublasLtMatmulPreferenceSetAttribute", l.preference_set);
      resolve(file, kTitle, "cublasLtMatmulAlgoGetHeuristic", l.heuristic);
      resolve(file, kTitle, "cublasLtMatmul", l.multiply);
      resolve(file, kTitle, "cublasLtGetVersion", l.version);
    } catch (const Error& error) {
      l.trouble = error.what();
    }
    return l;
  }();
  return api;
}

void check(int status, const char* what) {
  if (status == 0) return;
  constexpr int kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  throw Error(status == kNotSupported ? ErrorCode::kUnsupported : ErrorCode::kEngine,
              std::string("cuBLASLt: ") + what + " failed: status " + std::to_string(status));
}

// A device's handle; its context is current when it is made. All threads may use it.
void* handle_of(int device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, void*>();
  const std::lock_guard lock(mutex);
  void*& handle = (*handles)[device];
  if (handle == nullptr) check(library().create(&handle), "cublasLtCreate");
  return handle;
}

int data_type(DType dtype) {
  if (dtype == DType::kFloat64) return kReal64;
  if (dtype == DType::kFloat16) return kReal16;
  return dtype == DType::kBFloat16 ? kBrain16 : kReal32;
}

template <typename T>
void set_operation(void* operation, int attribute, const T& value) {
  check(library().operation_set(operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

std::uint32_t alignment_of(const View& view) {
  constexpr std::uint32_t kMost = 256;
  std::uint32_t alignment = kMost;
  while (alignment > 16 && view.byte_offset() % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

const std::string& cublas_trouble() { return library().trouble; }
std::string cublas_version() { return std::to_string(library().version()); }

void* Product::layout(const ProductStep::Matrix& matrix, DType dtype) const {
  void* made = nullptr;
  check(library().layout_create(&made, data_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutCreate");
  const auto count = static_cast<std::int32_t>(step_.batch);
  check(library().layout_set(made, kBatchCount, &count, sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
  check(library().layout_set(made, kBatchStride, &matrix.batch_stride, sizeof(matrix.batch_stride)),
        "cublasLtMatrixLayoutSetAttribute");
  return made;
}

Product::Product(int device, const ProductStep& step, bool tf32) : device_(device), step_(step) {
  const Library& l = library();
  const bool is_double = step.dtype == DType::kFloat64;
  int compute = is_double ? kCompute64 : kCompute32;
  if (step.factors == DType::kFloat32 && tf32) compute = kComputeTf32;
  check(l.operation_create(&operation_, compute, is_double ? kReal64 : kReal32),
        "cublasLtMatmulDescCreate");
  if (step.a.transposed) set_operation(operation_, kTransposeA, kTransposed);
  if (step.b.transposed) set_operation(operation_, kTransposeB, kTransposed);
  int epilogue = 0;
  if (step.activation == Activation::kRelu) epilogue |= kRelu;
  if (step.activation == Activation::kGeluTanh) epilogue |= kGelu;
  if (step.bias) epilogue |= kBias;
  set_operation(operation_, kEpilogue, epilogue == 0 ? kNothing : epilogue);
  if (step.bias) set_operation(operation_, kBiasType, data_type(step.dtype));
  a_ = layout(step.a, step.factors);
  b_ = layout(step.b, step.factors);
  c_ = layout(step.c, step.dtype);
  d_ = layout(step.d, step.dtype);
  void* preference = nullptr;
  check(l.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int attribute, const auto& value) {
    l.preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(kMostWorkspace, kWorkspaceLimit);
  prefer(kAlignmentOfA, alignment_of(step.a.view));
  prefer(kAlignmentOfB, alignment_of(step.b.view));
  prefer(kAlignmentOfC, alignment_of(step.c.view));
  ways_.resize(kMostWays);
  int found = 0;
  const int status = l.heuristic(handle_of(device_), operation_, a_, b_, c_, d_, preference,
                                 kMostWays, ways_.data(), &found);
  l.preference_destroy(preference);
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  ways_.resize(static_cast<std::size_t>(found));
  std::erase_if(ways_, [](const Way& way) { return way.state != 0; });
  if (ways_.empty()) throw Error(ErrorCode::kUnsupported, "cuBLASLt: it has no way");
}

Product::~Product() {
  const Library& l = library();
  for (void* matrix : {a_, b_, c_, d_}) {
    if (matrix != nullptr) l.layout_destroy(matrix);
  }
  if (operation_ != nullptr) l.operation_destroy(operation_);
}

void Product::queue(const Addresses& addresses, void* workspace, void* stream) const {
  if (step_.bias) {
    // The description holds the address; others queue the same one for other memory.
    void* const bias = addresses(*step_.bias);
    set_operation(operation_, kBiasPointer, bias);
  }
  const double alpha64 = step_.alpha, beta64 = step_.beta;
  const bool is_double = step_.dtype == DType::kFloat64;
  const void* alpha = is_double ? static_cast<const void*>(&alpha64) : &step_.alpha;
  const void* beta = is_double ? static_cast<const void*>(&beta64) : &step_.beta;
  const Way& way = ways_[chosen_];
  check(library().multiply(handle_of(device_), operation_, alpha, addresses(step_.a.view), a_,
                           addresses(step_.b.view), b_, beta, addresses(step_.c.view), c_,
                           addresses(step_.d.view), d_, way.algorithm, workspace, way.workspace,
                           stream),
        "cublasLtMatmul");
}

}  // namespace xrt::cuda
