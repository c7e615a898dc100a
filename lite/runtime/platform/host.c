/* SPDX-License-Identifier: Apache-2.0
 * malloc, files and shared libraries, for systems that have them. */
#define _DEFAULT_SOURCE /* madvise */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* Arenas of megabytes lie in huge pages where the system has them: fewer addresses of pages to keep.
 * The end that fills less than three quarters of one stays in small pages. */
static void* allocate(void* user, size_t bytes, size_t alignment) {
  void* memory = NULL;
  (void)user;
  if (bytes >= HUGE_PAGE && alignment < HUGE_PAGE) alignment = HUGE_PAGE;
  if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  const size_t huge = (bytes + HUGE_PAGE / 4) & ~(HUGE_PAGE - 1);
  if (bytes >= HUGE_PAGE) (void)madvise(memory, huge, MADV_HUGEPAGE);
#endif
  return memory;
}

static void release(void* user, void* memory) {
  (void)user;
  free(memory);
}

const xrt_lite_allocator* xrt_lite_default_allocator(void) {
  static const xrt_lite_allocator allocator = {allocate, release, NULL};
  return &allocator;
}

static void unmap(void* user, const void* bytes, size_t size) {
  (void)user;
  munmap((void*)(uintptr_t)bytes, size);
}

xrt_lite_status xrt_lite_load_file(const char* path, const xrt_lite_load_options* options,
                                   xrt_lite_model** model) {
  if (path == NULL || model == NULL) return XRT_LITE_INVALID_ARGUMENT;
  *model = NULL;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return XRT_LITE_IO;
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    return XRT_LITE_IO;
  }
  const size_t size = (size_t)info.st_size;
  if (size == 0) {
    close(file);
    return XRT_LITE_INVALID_FILE;
  }
  void* bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (bytes == MAP_FAILED) return XRT_LITE_IO;
  xrt_lite_load_options with_allocator = {0};
  if (options != NULL) with_allocator = *options;
  if (with_allocator.allocator == NULL) with_allocator.allocator = xrt_lite_default_allocator();
  const xrt_lite_status status = xrt_lite_load(bytes, size, &with_allocator, model);
  if (status != XRT_LITE_OK) {
    munmap(bytes, size);
    return status;
  }
  (*model)->close_file = unmap;
  return XRT_LITE_OK;
}

xrt_lite_status xrt_lite_load_driver(const char* path) {
  if (path == NULL) return XRT_LITE_INVALID_ARGUMENT;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return XRT_LITE_IO;
  union {
    void* object;
    const xrt_lite_driver* (*function)(void);
  } entry = {dlsym(library, "xrt_lite_driver_entry")};
  if (entry.object == NULL) {
    dlclose(library);
    return XRT_LITE_NO_DRIVER;
  }
  const xrt_lite_status status = xrt_lite_register_driver(entry.function());
  if (status != XRT_LITE_OK) dlclose(library);
  return status; /* a driver that is registered stays open */
}
