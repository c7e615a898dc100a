// SPDX-License-Identifier: Apache-2.0
// A program's answers on labelled samples: what `xrt eval` and openxrt.evaluate() do.
//
//   const auto set = open_labelled_set({.path = "imagenet/validation"});
//   const Evaluation done = evaluate(*program, *set, {.batches = {.batch = 64}, .top = {1, 5}});
//
// Several batches are under way at once: Program::streams() of them run, and one more waits so that
// no stream waits for the next. Several programs, of several devices, take turns. Answers are
// judged in the order of the samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/batches.h"
#include "evaluation/text_scores.h"
#include "xrt/program.h"

namespace xrt {

// What is known after an iteration; parts of 1, not percent.
struct EvaluationProgress {
  std::size_t iteration = 0;  // from 0
  std::size_t samples = 0;
  double top_1 = 0, top_k = 0;
  double samples_per_s = 0;
  const TextErrors* text = nullptr;  // where outputs are read as text
};

// What a batch computed, for a metric of the user's.
struct EvaluatedBatch {
  const std::vector<Data>& outputs;  // of all rows, padding included
  const Batch& batch;
};

struct EvaluationOptions {
  BatchOptions batches;
  std::vector<int> top = {1};  // largest k first or last; empty: outputs are no scores of classes
  std::string scores;          // name of the output with a score per class; "": the only output
  // Outputs are lines of text, and the name of a sample's class is the right one; `top` is empty.
  std::optional<Alphabet> alphabet;
  // Another program of the same inputs whose answers are compared. Its runs are not timed: the
  // others pause for them.
  Program* reference = nullptr;
  std::function<void(std::int64_t batch)> begin;          // all is loaded and compiled
  std::function<void(const EvaluationProgress&)> report;  // after each iteration
  std::function<void(const EvaluatedBatch&)> judge;       // after each iteration, before `report`
};

struct Evaluation {
  std::size_t samples = 0;  // that count
  std::size_t skipped = 0;
  std::vector<std::string> complaints;  // about the first few that were skipped
  std::int64_t batch = 0;
  std::int64_t classes = 0;     // 0 where there are no scores
  std::map<int, double> top;    // k → part of the samples whose label is among the best k
  double top_1 = 0, top_k = 0;  // top_k: of the largest k
  double seconds = 0;           // from the first sample to the last answer
  double samples_per_s = 0;
  // Part of the time in which the programs ran, over their streams: 1 where each stream always had
  // a batch to compute.
  double busy = 0;
  // Label and answer → samples.
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> confusion;
  std::optional<TextErrors> text;  // where outputs are read as text
  // Where there is a reference: samples of the same answer, the mean cosine of the scores, and what
  // the reference reached.
  double agreement = 0, cosine = 0;
  std::map<int, double> reference_top;
};

// Runs the program on the set, batch by batch. A last batch that is short is run as it is where the
// first dimension of the inputs is open, else filled up, and what is filled up does not count. Each
// size of batch is run once before time is taken, which compiles what has to be compiled.
//
// Throws xrt::Error: kInvalidArgument for inputs, outputs and labels that do not fit, for scores
// that are not finite (-infinity is the least score), and where no sample could be used; what
// reading a sample and running throw; kEngine "interrupted".
Evaluation evaluate(Program& program, const LabelledSet& set, const EvaluationOptions& options);
// The same with several programs of one model, one or more.
Evaluation evaluate(std::span<Program* const> programs, const LabelledSet& set,
                    const EvaluationOptions& options);

// The largest power of 2, at most the number of samples, that runs within the memory that is there:
// the batch is doubled, as many at once as evaluate() has, until a run says kResource, or until the
// next would take more memory than the machine or its control group has free. 1 or the declared one
// where the model's batch is fixed.
std::int64_t largest_batch(std::span<Program* const> programs, const LabelledSet& set,
                           const BatchOptions& options);

}  // namespace xrt
