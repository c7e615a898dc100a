// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "custom/engine_executable.h"
#include "gil.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Threads of programs within Python. A thread that asks for the interpreter's lock while the
// interpreter ends is ended by it, and the process with it: the end waits for them.
std::atomic<int> visits{0};
std::atomic<pid_t> visited_process{0};  // a forked child has none of its parent's threads

class Visit {
 public:
  Visit() {
    const pid_t process = ::getpid();
    if (visited_process.exchange(process) != process) visits = 0;
    ++visits;
  }
  ~Visit() { --visits; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

void end_visits() {
  while (visited_process == ::getpid() && visits > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

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
    request_.on_done([held = std::move(held)](const Request&) mutable {
      const Visit visit;
      with_gil_if_up([&] {
        try {
          held->get().attr("_end")();
        } catch (nb::python_error& error) {
          // A callback's SystemExit or KeyboardInterrupt: there is no caller to raise it to.
          error.discard_as_unraisable("a callback of openxrt.Request");
        }
        held.reset();
      });
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
  module.def("end_visits", end_visits, nb::call_guard<ReleasedGil>(),
             "Waits until no thread of a program is within Python.");
}

}  // namespace xrt::python
