// SPDX-License-Identifier: Apache-2.0
#include "cli/data_options.h"

#include <string>

namespace xrt::cli {
namespace {

constexpr const char* kGroup = "Data";
constexpr const char* kPictures = "Pictures";

}  // namespace

CLI::Option* add_data_options(CLI::App& app, DataOptions& options) {
  const std::string group = kGroup;
  CLI::Option* data = app.add_option("--data", options.source.path, "samples: a folder or a file")
                          ->type_name("DIR")
                          ->group(group);
  app.add_option("--format", options.source.format,
                 "of the samples: auto, ofrecord, folders, arrays, csv")
      ->check(CLI::IsMember(labelled_formats()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--classes", options.source.classes,
                 "names of the classes, one a line, class 0 first; folders and labels of that name "
                 "get its number")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--picture-field", options.source.picture_field,
                 "of an OFRecord; else encoded, image or images")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--label-field", options.source.label_field,
                 "of an OFRecord; else class/label, label or labels")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--limit", options.batches.limit, "take the first N samples; 0: all")
      ->type_name("N")
      ->group(group);
  app.add_flag("--skip-bad", options.batches.skip_bad,
               "leave out and count samples that are damaged, instead of stopping")
      ->group(group);
  app.add_option("--workers", options.batches.workers,
                 "threads that read and decode; 0: the thread budget")
      ->check(CLI::Range(0, 1024))
      ->group(group);
  return data;
}

void add_label_options(CLI::App& app, DataOptions& options) {
  app.add_option("--label-offset", options.batches.label_offset,
                 "added to each label: -1 where they begin at 1")
      ->capture_default_str()
      ->group(kGroup);
}

void add_pixel_options(CLI::App& app, PreparationWishes& wishes) {
  app.add_option("--mean", wishes.mean, "value = (value - mean) / std, three numbers, R G B")
      ->type_name("R G B")
      ->group(kPictures);
  app.add_option("--std", wishes.std, "see --mean")->type_name("R G B")->group(kPictures);
  app.add_option("--scale", wishes.scale, "values before --mean go from 0 to 1 or to 255")
      ->check(CLI::IsMember({1, 255}))
      ->group(kPictures);
  app.add_option("--layout", wishes.layout, "auto, nchw, nhwc")
      ->check(CLI::IsMember({"auto", "nchw", "nhwc"}))
      ->capture_default_str()
      ->group(kPictures);
  app.add_option("--channels", wishes.channels, "rgb or bgr")
      ->check(CLI::IsMember({"rgb", "bgr"}))
      ->capture_default_str()
      ->group(kPictures);
}

void add_picture_options(CLI::App& app, PreparationWishes& wishes) {
  app.add_option("--preset", wishes.preset,
                 "imagenet: resize 256, crop 224, torchvision's mean and std; oneflow: the same "
                 "with those of OneFlow-Benchmark, scale 255. The options below override it")
      ->check(CLI::IsMember(preparation_presets()))
      ->group(kPictures);
  app.add_option("--resize-shorter", wishes.resize_shorter, "pixels that the shorter side gets")
      ->type_name("N")
      ->group(kPictures);
  app.add_option("--crop", wishes.crop, "cut N x N pixels out of the middle")
      ->type_name("N")
      ->group(kPictures);
  add_pixel_options(app, wishes);
}

BatchOptions batch_options(const DataOptions& options) {
  BatchOptions result = options.batches;
  result.preparation = make_preparation(options.wishes);
  return result;
}

}  // namespace xrt::cli
