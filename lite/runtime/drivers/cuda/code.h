/* SPDX-License-Identifier: Apache-2.0
 * What the compiler puts into a file for the driver "cuda", per function. Little-endian, 32-bit
 * words but for the images:
 *   xrt_cuda_code | xrt_cuda_image[image_count] | xrt_cuda_launch[launch_count] | images
 * Every kernel takes one argument by value: XRT_CUDA_ARGS addresses, those of the op's operands and
 * then of its scratch memory. */
#ifndef XRT_LITE_CUDA_CODE_H_
#define XRT_LITE_CUDA_CODE_H_

#include <stdint.h>

#define XRT_CUDA_MAGIC 0x43545258u /* "XRTC" */
#define XRT_CUDA_VERSION 1u
#define XRT_CUDA_ARGS 12
#define XRT_CUDA_MAX_KERNELS 100000u

typedef struct xrt_cuda_code {
  uint32_t magic, version, image_count, kernel_count, launch_count, flags;
} xrt_cuda_code;

/* Flags. Kernels may be started while the ones before them end: those for 9.0 and later wait
 * (griddepcontrol.wait) before they touch the arena. Files of older compilers lack it. */
enum { XRT_CUDA_OVERLAP = 1 };
/* Cubins run on devices of the same major and a minor of at least theirs; PTX on any from its
 * architecture on, compiled when it is loaded. */
enum { XRT_CUDA_CUBIN = 1, XRT_CUDA_PTX = 2 };
typedef struct xrt_cuda_image {
  uint32_t kind, arch;    /* 90: compute capability 9.0 */
  uint32_t offset, bytes; /* from the code's begin; PTX ends with a zero byte */
} xrt_cuda_image;

/* Kernel `kernel` is named "k<kernel>". */
typedef struct xrt_cuda_launch {
  uint32_t op; /* of the function */
  uint32_t kernel;
  uint32_t grid[3], block;
} xrt_cuda_launch;

#endif /* XRT_LITE_CUDA_CODE_H_ */
