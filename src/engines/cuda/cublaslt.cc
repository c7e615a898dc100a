// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, opened at run time. The prototypes are those of its public API.
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cuda/libraries.h"
#include "engines/cuda/computation.h"
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
  int (*check_way)(void*, void*, void*, void*, void*, void*, const void*, void*);
  std::size_t (*version)();
  std::string trouble;
};

const Library& library() {
  static const auto api = [] {
    const LibraryName name{.title = kTitle,
                           .package = "nvidia-cublas",
                           .variable = "XRT_CUBLASLT",
                           .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
                           .helpers = {}};
    return open_if_there<Library>(name, [](Library& l, const auto& find) {
      find("cublasLtCreate", l.create);
      find("cublasLtMatmulDescCreate", l.operation_create);
      find("cublasLtMatmulDescDestroy", l.operation_destroy);
      find("cublasLtMatmulDescSetAttribute", l.operation_set);
      find("cublasLtMatrixLayoutCreate", l.layout_create);
      find("cublasLtMatrixLayoutDestroy", l.layout_destroy);
      find("cublasLtMatrixLayoutSetAttribute", l.layout_set);
      find("cublasLtMatmulPreferenceCreate", l.preference_create);
      find("cublasLtMatmulPreferenceDestroy", l.preference_destroy);
      find("cublasLtMatmulPreferenceSetAttribute", l.preference_set);
      find("cublasLtMatmulAlgoGetHeuristic", l.heuristic);
      find("cublasLtMatmulAlgoCheck", l.check_way);
      find("cublasLtMatmul", l.multiply);
      find("cublasLtGetVersion", l.version);
    });
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

using Owned = std::shared_ptr<void>;  // a description of the library's

class Product final : public Computation {
 public:
  Product(const LibraryOptions& options, const ProductStep& step, std::string_view saved);

  std::size_t way_count() const override { return ways_.size(); }
  using Computation::workspace_bytes;
  std::size_t workspace_bytes(std::size_t way) const override { return ways_[way].workspace; }
  void queue(const Addresses& addresses, void* workspace, void* stream) const override;
  std::string save() const override {
    return {reinterpret_cast<const char*>(&ways_[chosen()]), sizeof(Way)};
  }

 private:
  struct Way {  // cublasLtMatmulHeuristicResult_t
    std::uint64_t algorithm[8];
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  Owned layout(const ProductStep::Matrix& matrix, DType dtype) const;
  void find_ways();
  void restore_way(std::string_view saved);

  int device_;
  ProductStep step_;
  Owned operation_, a_, b_, c_, d_;
  std::vector<Way> ways_;
};

Owned Product::layout(const ProductStep::Matrix& matrix, DType dtype) const {
  void* raw = nullptr;
  check(library().layout_create(&raw, data_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutCreate");
  Owned made(raw, [](void* layout) { library().layout_destroy(layout); });
  const auto set = [&](int attribute, const auto& value) {
    check(library().layout_set(raw, attribute, &value, sizeof(value)),
          "cublasLtMatrixLayoutSetAttribute");
  };
  set(kBatchCount, static_cast<std::int32_t>(step_.batch));
  set(kBatchStride, matrix.batch_stride);
  return made;
}

Product::Product(const LibraryOptions& options, const ProductStep& step, std::string_view saved)
    : device_(options.device), step_(step) {
  const Library& l = library();
  const bool is_double = step.dtype == DType::kFloat64;
  int compute = is_double ? kCompute64 : kCompute32;
  if (step.factors == DType::kFloat32 && options.tf32) compute = kComputeTf32;
  void* operation = nullptr;
  check(l.operation_create(&operation, compute, is_double ? kReal64 : kReal32),
        "cublasLtMatmulDescCreate");
  operation_ = {operation, [](void* made) { library().operation_destroy(made); }};
  if (step.a.transposed) set_operation(operation_.get(), kTransposeA, kTransposed);
  if (step.b.transposed) set_operation(operation_.get(), kTransposeB, kTransposed);
  int epilogue = 0;
  if (step.activation == Activation::kRelu) epilogue |= kRelu;
  if (step.activation == Activation::kGeluTanh) epilogue |= kGelu;
  if (step.bias) epilogue |= kBias;
  set_operation(operation_.get(), kEpilogue, epilogue == 0 ? kNothing : epilogue);
  if (step.bias) set_operation(operation_.get(), kBiasType, data_type(step.dtype));
  a_ = layout(step.a, step.factors);
  b_ = layout(step.b, step.factors);
  c_ = layout(step.c, step.dtype);
  d_ = layout(step.d, step.dtype);
  if (saved.empty()) {
    find_ways();
  } else {
    restore_way(saved);
  }
}

void Product::find_ways() {
  const Library& l = library();
  void* preference = nullptr;
  check(l.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const Owned owner(preference, [](void* made) { library().preference_destroy(made); });
  const auto prefer = [&](int attribute, const auto& value) {
    l.preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(kMostWorkspace, kWorkspaceLimit);
  prefer(kAlignmentOfA, alignment_of(step_.a.view));
  prefer(kAlignmentOfB, alignment_of(step_.b.view));
  prefer(kAlignmentOfC, alignment_of(step_.c.view));
  ways_.resize(kMostWays);
  int found = 0;
  const int status = l.heuristic(handle_of(device_), operation_.get(), a_.get(), b_.get(), c_.get(),
                                 d_.get(), preference, kMostWays, ways_.data(), &found);
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  ways_.resize(static_cast<std::size_t>(found));
  std::erase_if(ways_, [](const Way& way) { return way.state != 0; });
  if (ways_.empty()) throw Error(ErrorCode::kUnsupported, "cuBLASLt: it has no way");
}

void Product::restore_way(std::string_view saved) {
  Way way = {}, checked = {};
  if (saved.size() != sizeof(way)) throw Error(ErrorCode::kEngine, "cuBLASLt: no saved way");
  std::memcpy(&way, saved.data(), sizeof(way));
  check(library().check_way(handle_of(device_), operation_.get(), a_.get(), b_.get(), c_.get(),
                            d_.get(), way.algorithm, &checked),
        "cublasLtMatmulAlgoCheck");
  way.workspace = checked.workspace;
  ways_.push_back(way);
}

void Product::queue(const Addresses& addresses, void* workspace, void* stream) const {
  if (step_.bias) {
    // The description holds the address; others queue the same one for other memory.
    void* const bias = addresses(*step_.bias);
    set_operation(operation_.get(), kBiasPointer, bias);
  }
  const double alpha64 = step_.alpha, beta64 = step_.beta;
  const bool is_double = step_.dtype == DType::kFloat64;
  const void* alpha = is_double ? static_cast<const void*>(&alpha64) : &step_.alpha;
  const void* beta = is_double ? static_cast<const void*>(&beta64) : &step_.beta;
  const Way& way = ways_[chosen()];
  check(library().multiply(handle_of(device_), operation_.get(), alpha, addresses(step_.a.view),
                           a_.get(), addresses(step_.b.view), b_.get(), beta,
                           addresses(step_.c.view), c_.get(), addresses(step_.d.view), d_.get(),
                           way.algorithm, workspace, way.workspace, stream),
        "cublasLtMatmul");
}

}  // namespace

const std::string& cublas_trouble() { return library().trouble; }
std::string cublas_version() { return std::to_string(library().version()); }

std::unique_ptr<Computation> make_product(const LibraryOptions& options, const ProductStep& step,
                                          std::string_view saved) {
  return std::make_unique<Product>(options, step, saved);
}

}  // namespace xrt::cuda
