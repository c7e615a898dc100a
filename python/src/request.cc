// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <memory>
#include <utility>

#include "custom/engine_executable.h"
#include "released_gil.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

class SubmittedRun {
 public:
  SubmittedRun(Request request, std::function<nb::object(std::vector<Data>)> outputs)
      : request_(std::move(request)), outputs_(std::move(outputs)) {}

  bool running() const { return request_.running(); }
  bool cancelled() const { return request_.cancelled(); }
  bool cancel() const {
    // The callback, which takes the lock itself, may be called in here.
    const ReleasedGil release;
    return request_.cancel();
  }
  nb::object outputs() const { return outputs_(request_.get()); }

  // Calls `future._end()`, once. The program's threads know nothing of Python: where the
  // interpreter is gone, nobody waits.
  void on_done(const nb::object& future) const {
    auto held = std::make_shared<const Held>(future);
    request_.on_done([held = std::move(held)](const Request&) {
      if (!is_up()) return;
      const Gil gil;
      held->get().attr("_end")();
    });
  }

 private:
  Request request_;
  std::function<nb::object(std::vector<Data>)> outputs_;
};

}  // namespace

nb::object make_request(const std::function<Request()>& submit,
                        std::function<nb::object(std::vector<Data>)> outputs) {
  nb::object future = nb::module_::import_("openxrt.request").attr("Request")();
  Request request;
  try {
    const ReleasedGil release;
    request = submit();
  } catch (...) {  // rethrown
    future.attr("_abandon")();
    throw;
  }
  future.attr("_begin")(nb::cast(new SubmittedRun(std::move(request), std::move(outputs)),
                                 nb::rv_policy::take_ownership));
  return future;
}

void bind_request(nb::module_& module) {
  nb::class_<SubmittedRun>(module, "SubmittedRun",
                           "A run in the queue of a program; openxrt.request.Request is its user.")
      .def("running", &SubmittedRun::running, "Whether it takes place now.")
      .def("cancelled", &SubmittedRun::cancelled, "Whether it was taken back.")
      .def("cancel", &SubmittedRun::cancel, "Takes it back where it has not begun: whether it was.")
      .def("outputs", &SubmittedRun::outputs, "What it computed, or its error raised.")
      .def("on_done", &SubmittedRun::on_done, nb::arg("future"),
           "Has future._end() called at its end, at once where it has ended.");
}

}  // namespace xrt::python
