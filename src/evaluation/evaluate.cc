// SPDX-License-Identifier: Apache-2.0
#include "evaluation/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "base/interrupt.h"
#include "evaluation/flights.h"
#include "evaluation/scores.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void refuse_evaluation(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

double part(std::size_t count, std::size_t all) {
  return all == 0 ? 0 : static_cast<double>(count) / static_cast<double>(all);
}

// Index of the output with the scores.
std::size_t scores_port(const Program& program, const std::string& name) {
  const std::vector<Port>& ports = program.outputs();
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  if (name.empty()) {
    if (ports.size() == 1) return 0;
    refuse_evaluation(fmt::format("the model has {} outputs ('{}'): name the one with the scores",
                                  ports.size(), fmt::join(names, "', '")));
  }
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    refuse_evaluation(
        fmt::format("the model has no output '{}'; it has '{}'", name, fmt::join(names, "', '")));
  }
  return static_cast<std::size_t>(found - names.begin());
}

double cosine_of(const Scores& a, const Scores& b, std::int64_t row) {
  double both = 0, first = 0, second = 0;
  for (std::int64_t i = 0; i < a.classes; ++i) {
    const double x = a.row(row)[i], y = b.row(row)[i];
    both += x * y;
    first += x * x;
    second += y * y;
  }
  return first == second && first == 0 ? 1 : both / std::sqrt(first * second);
}

// Counts the answers of one program.
class Answers {
 public:
  Answers(const Program& program, const EvaluationOptions& options)
      : port_(scores_port(program, options.scores)), top_(options.top.begin(), options.top.end()) {
    top_.insert(1);
    if (*top_.begin() < 1) refuse_evaluation("top counts classes, from 1 on");
  }

  Scores take(const std::vector<Data>& outputs, const Batch& batch, const LabelledSet& set,
              std::int64_t rows) {
    Scores scores = scores_of(outputs.at(port_).tensor(), rows);
    classes_ = scores.classes;
    if (*top_.rbegin() > classes_) {
      refuse_evaluation(fmt::format("top {} of {} classes", *top_.rbegin(), classes_));
    }
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      if (batch.counts[i]) count(scores, static_cast<std::int64_t>(i), batch, set);
    }
    return scores;
  }

  std::map<int, double> top() const {
    std::map<int, double> parts;
    for (const int k : top_) {
      const auto found = right_.find(k);
      parts[k] = part(found == right_.end() ? 0 : found->second, samples_);
    }
    return parts;
  }
  std::int64_t classes() const { return classes_; }
  const auto& confusion() const { return confusion_; }

 private:
  void count(const Scores& scores, std::int64_t row, const Batch& batch, const LabelledSet& set) {
    const std::size_t index = batch.first + static_cast<std::size_t>(row);
    const std::int64_t label = batch.labels[static_cast<std::size_t>(row)];
    if (label < 0 || label >= classes_) {
      refuse_evaluation(fmt::format("{}: label {} is none of the model's {} classes, 0 to {}",
                                    set.place(index), label, classes_, classes_ - 1));
    }
    if (has_no_order(scores, row)) {
      refuse_evaluation(
          fmt::format("{}: the model's scores hold NaN or infinity, in which no class is the best",
                      set.place(index)));
    }
    const std::int64_t place = place_of(scores, row, label);
    for (const int k : top_) right_[k] += place < k ? 1 : 0;
    ++confusion_[{label, best_class(scores, row)}];
    ++samples_;
  }

  std::size_t port_;
  std::set<int> top_;
  std::int64_t classes_ = 0;
  std::size_t samples_ = 0;
  std::map<int, std::size_t> right_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> confusion_;
};

// The sizes of batch that the set will need, run on zeros by every stream.
void warm_up(Program& program, const BatchShape& shape, std::size_t samples) {
  std::vector<std::int64_t> sizes;
  const auto batch = static_cast<std::size_t>(shape.batch());
  if (samples >= batch || !shape.open_batch()) sizes.push_back(shape.batch());
  if (shape.open_batch() && samples % batch != 0) {
    sizes.push_back(static_cast<std::int64_t>(samples % batch));
  }
  for (const std::int64_t size : sizes) run_at_once(program, shape.allocate(size));
}

bool same_inputs(const Program& a, const Program& b) {
  return std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                    [](const Port& x, const Port& y) {
                      return x.name == y.name && x.type.dtype == y.type.dtype &&
                             x.type.rank() == y.type.rank();
                    });
}

class Evaluator {
 public:
  Evaluator(std::span<Program* const> programs, const LabelledSet& set,
            const EvaluationOptions& options)
      : programs_(programs), set_(set), options_(options) {
    const Program& first = *programs.front();
    if (!options.top.empty()) answers_.emplace(first, options);
    if (options.alphabet) {
      if (!options.top.empty()) refuse_evaluation("text has no classes: leave top out");
      text_port_ = scores_port(first, options.scores);
      done_.text.emplace();
    }
    for (const Program* other : programs) {
      if (!same_inputs(first, *other)) refuse_evaluation("the programs have different inputs");
    }
    if (options.reference == nullptr) return;
    if (options.top.empty()) refuse_evaluation("answers are compared by their scores: give top");
    if (!same_inputs(first, *options.reference)) {
      refuse_evaluation("the model to compare with has other inputs");
    }
    references_.emplace(*options.reference, options);
  }

  Evaluation run() {
    const std::vector<Port>& inputs = programs_.front()->inputs();
    {
      const BatchShape shape(set_, inputs, options_.batches);
      const std::size_t limit = options_.batches.limit;
      const std::size_t samples = limit > 0 ? std::min(limit, set_.size()) : set_.size();
      for (Program* program : programs_) warm_up(*program, shape, samples);
      if (options_.reference != nullptr) warm_up(*options_.reference, shape, samples);
      done_.batch = shape.batch();
    }
    if (options_.begin) options_.begin(done_.batch);
    start_ = Clock::now();
    Flights flights(programs_);
    BatchLoader loader(set_, inputs, options_.batches, flights.most());
    while (const Batch* batch = loader.next()) {
      flights.start(*batch);
      if (flights.is_full()) land(flights);
      throw_if_interrupted();
    }
    while (!flights.empty()) land(flights);
    done_.skipped = loader.skipped();
    done_.complaints = loader.complaints();
    if (done_.samples == 0) {
      refuse_evaluation(fmt::format("none of the {} samples could be used; {}", done_.skipped,
                                    done_.complaints.front()));
    }
    finish(flights);
    return std::move(done_);
  }

 private:
  // Judges the oldest batch. A reference runs while nothing else does.
  void land(Flights& flights) {
    if (references_) flights.wait();
    do {
      const Flights::Landed landed = flights.land();
      done_.seconds = seconds_since(start_) - aside_;
      aside_ += judge(*landed.batch, landed.outputs);
      report();
    } while (references_ && !flights.empty());
  }

  // Returns the seconds that are not the program's: those of the reference.
  double judge(const Batch& batch, const std::vector<Data>& outputs) {
    done_.samples +=
        static_cast<std::size_t>(std::count(batch.counts.begin(), batch.counts.end(), true));
    // Rows of the batch, padding included.
    std::int64_t rows = 0;
    for (const Data& input : batch.inputs) {
      if (!input.is_none()) rows = input.tensor().dims()[0];
    }
    std::optional<Scores> scores;
    if (answers_) scores = answers_->take(outputs, batch, set_, rows);
    if (options_.alphabet) read_text(outputs, batch);
    if (options_.judge) options_.judge({outputs, batch});
    if (!references_) return 0;
    const Clock::time_point begin = Clock::now();
    std::vector<Data> expected;
    options_.reference->run(batch.inputs, expected);
    const Scores wanted = references_->take(expected, batch, set_, rows);
    if (wanted.classes != scores->classes) {
      refuse_evaluation(fmt::format("the model to compare with has {} classes, not {}",
                                    wanted.classes, scores->classes));
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(batch.labels.size()); ++i) {
      if (!batch.counts[static_cast<std::size_t>(i)]) continue;
      agreed_ += best_class(*scores, i) == best_class(wanted, i) ? 1 : 0;
      cosines_ += cosine_of(*scores, wanted, i);
    }
    return seconds_since(begin);
  }

  void read_text(const std::vector<Data>& outputs, const Batch& batch) {
    const Tensor& output = outputs.at(text_port_).tensor();
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      if (!batch.counts[i]) continue;
      const std::int64_t label = batch.labels[i];
      if (label < 0 || static_cast<std::size_t>(label) >= set_.classes().size()) {
        refuse_evaluation(fmt::format("{}: label {} has no text; a column 'text' of a .csv has one",
                                      set_.place(batch.first + i), label));
      }
      done_.text->add(set_.classes()[static_cast<std::size_t>(label)],
                      read_line(output, static_cast<std::int64_t>(i), *options_.alphabet));
    }
  }

  void report() {
    const std::size_t iteration = iterations_++;
    if (!options_.report) return;
    EvaluationProgress progress{
        iteration, done_.samples, 0, 0, static_cast<double>(done_.samples) / done_.seconds,
        nullptr};
    if (done_.text) progress.text = &*done_.text;
    if (answers_) {
      const std::map<int, double> top = answers_->top();
      progress.top_1 = top.begin()->second;
      progress.top_k = top.rbegin()->second;
    }
    options_.report(progress);
  }

  void finish(const Flights& flights) {
    const auto samples = static_cast<double>(done_.samples);
    done_.samples_per_s = samples / done_.seconds;
    done_.busy = flights.flown_seconds() / done_.seconds / flights.streams();
    if (answers_) {
      done_.classes = answers_->classes();
      done_.top = answers_->top();
      done_.top_1 = done_.top.begin()->second;
      done_.top_k = done_.top.rbegin()->second;
      done_.confusion = answers_->confusion();
    }
    if (references_) {
      done_.agreement = part(agreed_, done_.samples);
      done_.cosine = cosines_ / samples;
      done_.reference_top = references_->top();
    }
  }

  const std::span<Program* const> programs_;
  const LabelledSet& set_;
  const EvaluationOptions& options_;
  std::optional<Answers> answers_, references_;
  Evaluation done_;
  Clock::time_point start_;
  double aside_ = 0, cosines_ = 0;  // aside_: seconds that do not count
  std::size_t agreed_ = 0, iterations_ = 0, text_port_ = 0;
};

}  // namespace

Evaluation evaluate(Program& program, const LabelledSet& set, const EvaluationOptions& options) {
  Program* const one[] = {&program};
  return evaluate(one, set, options);
}

Evaluation evaluate(std::span<Program* const> programs, const LabelledSet& set,
                    const EvaluationOptions& options) {
  return Evaluator(programs, set, options).run();
}

}  // namespace xrt
