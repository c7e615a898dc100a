// SPDX-License-Identifier: Apache-2.0
// The samples of a labelled set as batches of a program's inputs. Threads read, decode and prepare
// the next batch while the caller computes the one that it has.
//
//   BatchLoader loader(set, program->inputs(), options);
//   while (const Batch* batch = loader.next()) program->run(batch->inputs, outputs);
//
// Who computes several batches at once has the loader keep as many:
//
//   BatchLoader loader(set, program->inputs(), options, 3);  // a batch lives until three more are
//   asked for
//
// Thread-safety: next() is called by one thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/labelled_set.h"
#include "data/preparation.h"
#include "xrt/program.h"

namespace xrt {

struct BatchOptions {
  std::int64_t batch = 0;         // samples of one; 0: as the inputs declare it, 1 where it is open
  std::size_t limit = 0;          // samples to take of the set; 0: all
  std::int64_t label_offset = 0;  // added to each label
  bool skip_bad = false;          // leave out samples that are damaged or do not fit
  int workers = 0;                // threads; 0: those of the process's budget
  Preparation preparation;
};

struct Batch {
  std::size_t first = 0;             // number of its first sample in the set
  std::vector<Data> inputs;          // in order of the ports; none where a default is to be used
  std::vector<std::int64_t> labels;  // of the samples; rows beyond are padding
  std::vector<bool> counts;          // false: a sample that was left out
};

// How an input's values are made of a sample.
struct InputRow {
  bool absent = false;  // it has a default, which is used
  bool picture = false;
  bool open_batch = false;  // the first dimension may be anything
  DType dtype = DType::kUndefined;
  Dims dims;  // of one sample, without the batch
  std::size_t bytes = 0;
  ImageShape image;  // of a picture; axes count the batch
};

// What the samples of a set become, judged by the first that can be read.
class BatchShape {
 public:
  // Throws kInvalidArgument, naming input and sample, where they do not fit together.
  BatchShape(const LabelledSet& set, const std::vector<Port>& inputs, const BatchOptions& options);

  std::int64_t batch() const { return batch_; }
  // Inputs may have fewer samples than batch().
  bool open_batch() const { return open_batch_; }
  // Zeroed values for so many samples.
  std::vector<Data> allocate(std::int64_t batch) const;
  // The first `count` samples of them.
  std::vector<Data> first_of(const std::vector<Data>& inputs, std::int64_t count) const;
  // Writes one sample into its row.
  void store(const LabelledSample& sample, std::vector<Data>& inputs, std::int64_t row) const;

 private:
  void plan(const LabelledSample& sample);
  const NamedArray* array_of(const LabelledSample& sample, const Port& port) const;
  void store_array(const NamedArray& array, const InputRow& row, const std::string& name,
                   char* to) const;

  const std::vector<Port>& ports_;
  Preparation preparation_;
  std::vector<InputRow> rows_;
  std::int64_t batch_ = 1;
  bool open_batch_ = true;
};

class BatchLoader {
 public:
  // All outlive the loader. `held`: batches that live at once. Errors are BatchShape's.
  BatchLoader(const LabelledSet& set, const std::vector<Port>& inputs, const BatchOptions& options,
              std::size_t held = 1);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, which lives until `held` more are asked for; null behind the last one. Throws
  // what reading a sample threw, behind its place, and kEngine "interrupted".
  const Batch* next();

  std::size_t samples() const { return total_; }  // that are asked for
  std::size_t skipped() const;
  // What was wrong with the first few that were left out.
  std::vector<std::string> complaints() const;

 private:
  struct Buffer {
    std::vector<Data> whole;
    Batch batch;
    std::size_t left = 0;                              // samples that are still being made
    std::map<std::size_t, std::exception_ptr> errors;  // by number of the sample
  };

  void work();
  void begin(std::size_t number);
  std::exception_ptr fill(std::size_t index, Buffer& buffer, std::size_t row);

  const LabelledSet& set_;
  BatchOptions options_;
  BatchShape shape_;
  std::size_t size_ = 1;  // of a batch
  std::size_t total_ = 0;
  const std::size_t held_;
  std::vector<Buffer> buffers_;  // those held, and one that is filled meanwhile

  mutable std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::size_t next_sample_ = 0;  // that no thread has taken
  std::size_t done_ = 0;         // batches that the caller has finished
  std::size_t given_ = 0;        // that the caller has
  bool stop_ = false;
  std::size_t skipped_ = 0;
  std::vector<std::string> complaints_;
  std::vector<std::thread> threads_;
};

}  // namespace xrt
