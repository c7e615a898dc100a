// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a compiled model are either refused or run inside their memory. The checksum
// is made right first, so that mutations reach the checks behind it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../lite/runtime/src/internal.h"

namespace {

// A bound of what an op costs: hostile but harmless loops are not run.
double work(const xrt_view& v, const xrt_file_op& op) {
  const void* p = v.words + op.params;
  switch (op.kernel) {
    case XRT_K_CONV_F32:
    case XRT_K_CONV_Q8:
    case XRT_K_DWCONV_F32:
    case XRT_K_DWCONV_Q8: {
      const auto& c = *static_cast<const xrt_k_conv*>(p);
      return 1.0 * c.n * c.oh * c.ow * (c.oc + 8.0 * c.groups) * c.kh * c.kw *
             (1.0 * c.ic / c.groups + 8);
    }
    case XRT_K_GEMM_F32:
    case XRT_K_GEMM_Q8: {
      const auto& g = *static_cast<const xrt_k_gemm*>(p);
      return (g.m + 32.0) * (g.n + 8.0) * g.k * g.batch[0] * g.batch[1] * g.batch[2] * g.batch[3];
    }
    case XRT_K_POOL: {
      const auto& c = *static_cast<const xrt_k_pool*>(p);
      return 1.0 * c.n * c.oh * c.ow * c.kh * c.kw * c.c;
    }
    case XRT_K_EW: {
      const auto& e = *static_cast<const xrt_k_ew*>(p);
      double count = 1;
      for (const int d : e.dims) count *= d;
      return count * (e.code_words + 1);
    }
    case XRT_K_COPY: {
      const auto& c = *static_cast<const xrt_k_copy*>(p);
      double count = 1;
      for (int d = 0; d < c.rank; ++d) count *= c.dims[d];
      return count;
    }
    case XRT_K_REDUCE: {
      const auto& r = *static_cast<const xrt_k_reduce*>(p);
      double count = 1;
      for (int d = 0; d < 4; ++d) count *= 1.0 * r.kept[d] * r.reduced[d];
      return count;
    }
    default: {  // these read and write each element once
      double bytes = 0;
      for (std::uint32_t k = 0; k < op.operand_count; ++k) {
        bytes += static_cast<double>(v.tensors[v.operands[op.operands + k]].bytes);
      }
      return bytes;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto* file = static_cast<std::uint8_t*>(std::aligned_alloc(64, (size + 64) / 64 * 64));
  std::memcpy(file, data, size);
  if (size >= sizeof(xrt_file_header)) {
    auto* h = reinterpret_cast<xrt_file_header*>(file);
    h->file_bytes = size;
    if (h->meta_bytes <= size && h->meta_bytes >= sizeof(xrt_file_header)) {
      h->meta_checksum =
          xrt_checksum(file + XRT_FILE_CHECKED_FROM, h->meta_bytes - XRT_FILE_CHECKED_FROM);
    }
  }
  static const bool once = xrt_lite_register_driver(xrt_lite_generic_driver()) == XRT_LITE_OK;
  (void)once;
  xrt_lite_load_options options = {};
  options.allocator = xrt_lite_default_allocator();
  xrt_lite_model* model = nullptr;
  if (xrt_lite_load(file, size, &options, &model) == XRT_LITE_OK) {
    const xrt_view& v = model->view;
    double total = 0, bytes = static_cast<double>(v.targets[0].arena_bytes);
    for (std::uint32_t i = 0; i < v.header->steps.count; ++i) {
      if (v.steps[i].kind != XRT_STEP_FUNCTION) continue;
      const xrt_file_function& f = v.functions[v.steps[i].a];
      for (std::uint32_t k = 0; k < f.op_count; ++k) total += work(v, v.ops[f.first_op + k]);
    }
    for (std::uint32_t i = 0; i < v.header->ports.count; ++i) {
      bytes += static_cast<double>(v.ports[i].bytes);
    }
    xrt_lite_context* context = nullptr;
    if (total < 3e6 && bytes < 4e6 &&
        xrt_lite_context_create(model, nullptr, &context) == XRT_LITE_OK) {
      std::vector<std::vector<std::uint8_t>> buffers;
      xrt_lite_port port;
      for (std::int32_t i = 0; i < xrt_lite_input_count(model); ++i) {
        xrt_lite_input(model, i, &port);
        buffers.emplace_back(port.bytes);
        xrt_lite_set_input(context, i, buffers.back().data(), port.bytes);
      }
      for (std::int32_t i = 0; i < xrt_lite_output_count(model); ++i) {
        xrt_lite_output(model, i, &port);
        buffers.emplace_back(port.bytes);
        xrt_lite_set_output(context, i, buffers.back().data(), port.bytes);
      }
      xrt_lite_run(context);
      xrt_lite_context_destroy(context);
    }
    xrt_lite_unload(model);
  }
  std::free(file);
  return 0;
}
