// SPDX-License-Identifier: Apache-2.0
// Programs on labelled data; openxrt/evaluation.py is its user.
#include "evaluate.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/labelled_set.h"
#include "evaluation/evaluate.h"
#include "gil.h"
#include "labelled_set.h"
#include "program.h"
#include "values/convert.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

nb::dict result_of(const Evaluation& done) {
  nb::dict result;
  result["samples"] = done.samples;
  result["skipped"] = done.skipped;
  result["skipped_because"] = done.complaints;
  result["batch"] = done.batch;
  result["classes"] = done.classes;
  result["top"] = done.top;
  result["top_1"] = done.top_1;
  result["top_k"] = done.top_k;
  result["seconds"] = done.seconds;
  result["samples_per_s"] = done.samples_per_s;
  result["busy"] = done.busy;
  nb::dict confusion;
  for (const auto& [pair, count] : done.confusion) {
    confusion[nb::make_tuple(pair.first, pair.second)] = count;
  }
  result["confusion"] = confusion;
  if (done.text) {
    result["char_error_rate"] = done.text->character_rate();
    result["token_error_rate"] = done.text->token_rate();
    result["exact"] = done.text->exact;
  }
  result["agreement"] = done.agreement;
  result["cosine"] = done.cosine;
  result["reference_top"] = done.reference_top;
  return result;
}

nb::dict evaluate_programs(const nb::list& of_devices, const PyLabelledSet& data,
                           std::int64_t batch, const std::vector<int>& top,
                           const std::string& scores, const std::optional<std::string>& text,
                           const nb::object& reference, const nb::object& judge,
                           const nb::object& report) {
  std::vector<Program*> programs;
  for (nb::handle each : of_devices) programs.push_back(&program_of(each));
  Program& evaluated = *programs.at(0);
  EvaluationOptions options;
  options.batches = data.batches();
  options.batches.batch = batch;
  options.top = top;
  options.scores = scores;
  if (text) options.alphabet = read_alphabet(*text);
  if (!reference.is_none()) options.reference = &program_of(reference);
  if (!judge.is_none()) {
    options.judge = [&](const EvaluatedBatch& done) {
      const Gil gil;
      nb::dict outputs;
      for (std::size_t i = 0; i < done.outputs.size(); ++i) {
        outputs[nb::str(evaluated.outputs()[i].name.c_str())] =
            to_python(done.outputs[i], evaluated.outputs()[i].type);
      }
      judge(outputs, nb::cast(done.batch.labels), nb::cast(done.batch.counts));
    };
  }
  if (!report.is_none()) {
    options.report = [&](const EvaluationProgress& done) {
      const Gil gil;
      report(done.iteration, done.samples, done.top_1, done.top_k, done.samples_per_s);
    };
  }
  Evaluation done;
  {
    const ReleasedGil release;
    if (batch < 0) {
      options.batches.batch = 0;
      options.batches.batch = largest_batch(programs, data.set(), options.batches);
    }
    done = evaluate(programs, data.set(), options);
  }
  return result_of(done);
}

}  // namespace

void bind_evaluate(nb::module_& module) {
  nb::class_<PyLabelledSet>(module, "LabelledSet", "Labelled samples in files.")
      .def(nb::init<const std::filesystem::path&, const std::string&,
                    const std::optional<std::filesystem::path>&, const std::string&,
                    const std::string&, const std::string&, const std::optional<std::int64_t>&,
                    const std::optional<std::int64_t>&, const std::optional<Colours>&,
                    const std::optional<Colours>&, const std::optional<int>&, const std::string&,
                    const std::string&, std::size_t, std::int64_t, bool, int>(),
           nb::arg("data"), nb::kw_only(), nb::arg("format"), nb::arg("classes").none(),
           nb::arg("picture_field"), nb::arg("label_field"), nb::arg("preset"),
           nb::arg("resize_shorter").none(), nb::arg("crop").none(), nb::arg("mean").none(),
           nb::arg("std").none(), nb::arg("scale").none(), nb::arg("layout"), nb::arg("channels"),
           nb::arg("limit"), nb::arg("label_offset"), nb::arg("skip_bad"), nb::arg("workers"))
      .def("__len__", [](const PyLabelledSet& self) { return self.set().size(); })
      .def_prop_ro("format", [](const PyLabelledSet& self) { return self.set().format(); })
      .def_prop_ro("classes", [](const PyLabelledSet& self) { return self.set().classes(); })
      .def("place", [](const PyLabelledSet& self, std::size_t i) { return self.set().place(i); })
      .def("read", [](const PyLabelledSet& self, std::size_t i) {
        const LabelledSample sample = self.set().read(i);
        nb::dict arrays;
        for (const NamedArray& array : sample.arrays) {
          arrays[nb::str(array.name.c_str())] = to_python(Data(array.values));
        }
        return nb::make_tuple(nb::bytes(sample.picture.data(), sample.picture.size()), arrays,
                              sample.label);
      });
  module.def("evaluate", evaluate_programs, nb::arg("programs"), nb::arg("data"), nb::kw_only(),
             nb::arg("batch"), nb::arg("top"), nb::arg("scores"), nb::arg("text").none(),
             nb::arg("reference").none(), nb::arg("judge").none(), nb::arg("report").none(),
             "The answers on a LabelledSet of the programs of one model, one for each device, as a "
             "dict; openxrt.evaluate() is its user. A batch below 0: the largest that fits.");
}

}  // namespace xrt::python
