// SPDX-License-Identifier: Apache-2.0
// Engines, the disk cache, threads and the log, through the C API.
#include <filesystem>
#include <string>

#include "capi/border.h"
#include "report/machine.h"
#include "xrt/cache.h"
#include "xrt/log.h"
#include "xrt/threads.h"

using xrt::capi::copy_text;
using xrt::capi::guarded;
using xrt::capi::need;

xrt_code xrt_engines_json(char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(xrt::report::to_json(xrt::report::list_engines(), /*with_ops=*/true));
  });
}

xrt_code xrt_doctor_json(char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(to_json(xrt::report::probe_machine()));
  });
}

xrt_code xrt_cache_default_dir(char** dir, xrt_status** status) {
  return guarded(status, [&] {
    need(dir, "dir");
    *dir = copy_text(xrt::default_cache_dir().string());
  });
}

xrt_code xrt_cache_list_json(const char* dir, char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(xrt::report::cache_json(need(dir, "dir")));
  });
}

xrt_code xrt_cache_clear(const char* dir, size_t* removed, xrt_status** status) {
  return guarded(status, [&] {
    const std::size_t count = xrt::clear_cache(need(dir, "dir"));
    if (removed != nullptr) *removed = count;
  });
}

int xrt_thread_budget(void) { return xrt::thread_budget(); }

xrt_code xrt_set_thread_budget(int threads, xrt_status** status) {
  return guarded(status, [&] { xrt::set_thread_budget(threads); });
}

xrt_code xrt_set_log_level(const char* level, xrt_status** status) {
  return guarded(status, [&] { xrt::set_log_level(need(level, "level")); });
}
