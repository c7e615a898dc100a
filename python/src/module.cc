// SPDX-License-Identifier: Apache-2.0
// The extension module openxrt._core. What users see is in python/openxrt/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "calibration.h"
#include "compare.h"
#include "custom/engine.h"
#include "custom/op.h"
#include "errors.h"
#include "evaluate.h"
#include "gil.h"
#include "graph.h"
#include "oneflow.h"
#include "onnx.h"
#include "program.h"
#include "quantize.h"
#include "registry/doctor.h"
#include "request.h"
#include "trainer.h"
#include "values/convert.h"
#include "values/type.h"
#include "watch.h"
#include "xrt/program.h"
#include "xrt/version.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

void bind_tools(nb::module_& module) {
  nb::class_<EngineReport>(module, "EngineReport", "What probing one engine found.")
      .def_ro("name", &EngineReport::name)
      .def_ro("available", &EngineReport::available, "It loaded, and really ran one op.")
      .def_ro("builds", &EngineReport::builds,
              "Not available, but it compiled one op for a device that is not here.")
      .def_ro("version", &EngineReport::version)
      .def_ro("location", &EngineReport::location, "Where its library was found.")
      .def_ro("error", &EngineReport::error, "Why it is not available.")
      .def_ro("install_hint", &EngineReport::install_hint, "What to do about it.")
      .def_ro("devices", &EngineReport::devices)
      .def_ro("op_count", &EngineReport::op_count, "Ops with a lowering.")
      .def("__repr__", [](const EngineReport& report) {
        return "<" + report.name +
               (report.available ? " " + report.version : ": not available: " + report.error) + ">";
      });
  nb::class_<CacheEntry>(module, "CacheEntry", "One file of the compile cache.")
      .def_ro("key", &CacheEntry::key)
      .def_ro("engine", &CacheEntry::engine)
      .def_ro("function", &CacheEntry::function)
      .def_ro("bytes", &CacheEntry::bytes)
      .def_ro("last_used_unix", &CacheEntry::last_used_unix, "Seconds since 1970.")
      .def_ro("valid", &CacheEntry::valid, "Header and checksum hold.")
      .def("__repr__", [](const CacheEntry& entry) {
        return "<" + entry.function + " for " + entry.engine + ", " + std::to_string(entry.bytes) +
               " bytes>";
      });
  module.attr("FALLBACK_ENGINE") = fallback_engine();
  module.def("engine_names", engine_names, "Names of the engines that may be asked for.");
  module.def(
      "engine_ops", [](const std::string& name) { return get_engine(name)->ops(); },
      nb::arg("name"),
      "Ops that the engine has a lowering for, sorted. NotFound or EngineError otherwise.");
  module.def(
      "doctor",
      [](const std::vector<std::string>& names) {
        return names.empty() ? probe_engines() : probe_engines(names);
      },
      nb::arg("names") = std::vector<std::string>{}, nb::call_guard<ReleasedGil>(),
      "Probes engines, by default all, by running one op on each: a list of EngineReport.");
  module.def(
      "write_output_file",
      [](const std::filesystem::path& path, const nb::bytes& content) {
        const std::string_view bytes(content.c_str(), content.size());
        const ReleasedGil released;
        write_output_file(path, bytes);
      },
      nb::arg("path"), nb::arg("content"),
      "Writes a file that the user named: an older one stays whole until all of it is there.");
  module.def("thread_budget", thread_budget,
             "Threads that all engines of this process share: what set_num_threads() said, else "
             "XRT_NUM_THREADS, else the least of CPU affinity and cgroup quota.");
  module.def(
      "set_num_threads", set_thread_budget, nb::arg("threads"),
      "Sets the threads that all engines of this process share, 1 or more. Programs loaded "
      "from now on get no more; launches of all programs begin only while the threads of all "
      "that run stay within it, and wait asleep.");
  module.def(
      "default_decision_dir", [] { return default_decision_dir().string(); },
      "$XRT_CACHE_DIR where it is set, else the user's folder for what \"auto\" measured; may be "
      "\"\".");
  module.def(
      "cache_list", [](const std::string& dir) { return list_cache(dir); }, nb::arg("dir"));
  module.def(
      "cache_clear", [](const std::string& dir) { return clear_cache(dir); }, nb::arg("dir"));
  module.def("version", [] { return std::string(version()); });
}

}  // namespace
}  // namespace xrt::python

NB_MODULE(_core, module) {
  // Engines of Python live in the process-wide registry until the very end, and that is no leak.
  nb::set_leak_warnings(false);
  module.doc() = "OpenXRT's C++ library for Python.";
  xrt::python::bind_errors(module);
  xrt::python::bind_convert(module);
  xrt::python::bind_type(module);
  xrt::python::bind_graph(module);
  xrt::python::bind_program(module);
  xrt::python::bind_request(module);
  xrt::python::bind_trainer(module);
  xrt::python::bind_engine(module);
  xrt::python::bind_op(module);
  xrt::python::bind_onnx(module);
  xrt::python::bind_oneflow(module);
  xrt::python::bind_compare(module);
  xrt::python::bind_calibration(module);
  xrt::python::bind_quantize(module);
  xrt::python::bind_evaluate(module);
  xrt::python::bind_tools(module);
  xrt::python::bind_watch(module);
}
