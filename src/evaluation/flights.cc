// SPDX-License-Identifier: Apache-2.0
#include "evaluation/flights.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace xrt {

Flights::Flights(std::span<Program* const> programs) {
  for (Program* program : programs) {
    programs_.push_back({program});
    streams_ += program->streams();
  }
}

void Flights::start(const Batch& batch) {
  const auto load = [](const Lane& lane) {
    return static_cast<double>(lane.flights) / lane.program->streams();
  };
  const auto lane =
      std::min_element(programs_.begin(), programs_.end(),
                       [&](const Lane& a, const Lane& b) { return load(a) < load(b); });
  Request request = lane->program->submit(batch.inputs);
  ++lane->flights;
  flights_.push_back(
      {&batch, static_cast<std::size_t>(lane - programs_.begin()), std::move(request)});
}

void Flights::wait() const {
  for (const Flight& flight : flights_) flight.request.wait();
}

Flights::Landed Flights::land() {
  const Flight first = std::move(flights_.front());
  flights_.pop_front();
  Landed landed{first.batch, first.request.get()};
  --programs_[first.lane].flights;
  flown_seconds_ += std::chrono::duration<double>(first.request.run_time()).count();
  return landed;
}

void run_at_once(Program& program, const std::vector<Data>& inputs) {
  std::vector<Request> requests;
  for (int i = 0; i < program.streams(); ++i) requests.push_back(program.submit(inputs));
  for (const Request& request : requests) static_cast<void>(request.get());
}

}  // namespace xrt
