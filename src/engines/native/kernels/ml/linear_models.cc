// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: LinearClassifier, LinearRegressor, SVMClassifier, SVMRegressor. Sums are in double.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/ml/ml_scores.h"
#include "engines/native/kernels/register.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;
using Doubles = std::vector<double>;

double dot(const double* a, const double* b, std::size_t n) {
  return std::inner_product(a, a + n, b, 0.0);
}

// One row of coefficients, and maybe an intercept, per score.
struct Linear {
  Doubles coefficients, intercepts;

  explicit Linear(const Node& node)
      : coefficients(to_doubles(node.attr_floats("coefficients"))),
        intercepts(to_doubles(node.attr_floats("intercepts"))) {
    if (coefficients.empty()) fail("there are no coefficients");
  }
  // For rows of that many features.
  std::size_t scores(std::int64_t features) const {
    if (features < 1 || coefficients.size() % static_cast<std::size_t>(features) != 0) {
      fail("the coefficients do not fit rows of " + std::to_string(features) + " features");
    }
    const std::size_t count = coefficients.size() / static_cast<std::size_t>(features);
    if (!intercepts.empty() && intercepts.size() != count) {
      fail("the intercepts are not one for each score");
    }
    return count;
  }
  Doubles run(const double* x, std::size_t count) const {
    const std::size_t features = coefficients.size() / count;
    Doubles out(count);
    for (std::size_t s = 0; s < count; ++s) {
      out[s] = dot(x, coefficients.data() + s * features, features) +
               (intercepts.empty() ? 0.0 : intercepts[s]);
    }
    return out;
  }
};

void store_row(const Doubles& scores, Tensor& y, std::int64_t row) {
  const auto count = static_cast<std::int64_t>(scores.size());
  store_double(y.dtype(), scores.data(), count, y.raw(), row * count);
}

Created create_linear_regressor(const KernelCreateContext& create) {
  const Linear linear(create.node());
  const std::int64_t targets = create.node().attr_int("targets", 1);
  const PostTransform transform = post_transform(create.node());
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t count = linear.scores(column_count(x));
    if (targets != static_cast<std::int64_t>(count)) {
      fail("the coefficients make " + std::to_string(count) + " targets");
    }
    Tensor& y = k.output(0, DType::kFloat32, {row_count(x), targets});
    for_each_row(k, x, [&](std::int64_t row, const double* features) {
      Doubles scores = linear.run(features, count);
      apply(transform, scores.data(), count);
      store_row(scores, y, row);
    });
  });
}

Created create_linear_classifier(const KernelCreateContext& create) {
  const Node& node = create.node();
  const ClassLabels labels(node, "classlabels_ints", "classlabels_strings");
  const Linear linear(node);
  const PostTransform transform = post_transform(node);
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t made = linear.scores(column_count(x));
    const bool adds_other = made == 1 && labels.size() == 2;  // one score tells two classes apart
    const std::size_t count = adds_other ? 2 : made;
    if (labels.size() != 0 && labels.size() != count) {
      fail("there are not as many classes as scores");
    }
    Tensor& y = k.output(0, labels.dtype(), {row_count(x)});
    Tensor& z = k.output(1, DType::kFloat32, {row_count(x), static_cast<std::int64_t>(count)});
    for_each_row(k, x, [&](std::int64_t row, const double* features) {
      Doubles scores = linear.run(features, made);
      if (adds_other) scores = {-scores[0], scores[0]};
      apply(transform, scores.data(), count);
      store_row(scores, z, row);
      if (count > 1) {
        labels.write(highest(scores), y, row);
      } else if (scores[0] < (transform == PostTransform::kNone ? 0.0 : 0.5)) {
        labels.write_none(y, row);
      } else if (labels.size() == 0) {
        y.data<std::int64_t>()[row] = 1;
      } else {
        labels.write(0, y, row);
      }
    });
  });
}

void require_features(const Tensor& x, std::size_t count) {
  if (column_count(x) != static_cast<std::int64_t>(count)) {
    fail("rows of " + std::to_string(column_count(x)) + " features, where the model has " +
         std::to_string(count));
  }
}

// Of a support vector and a row.
class SvmKernel {
 public:
  explicit SvmKernel(const Node& node) {
    const std::string name = node.attr_string("kernel_type", "LINEAR");
    const auto* const known = std::find(std::begin(kNames), std::end(kNames), name);
    if (known == std::end(kNames)) fail("kernel_type '" + name + "' is not known");
    type_ = static_cast<Type>(known - std::begin(kNames));
    const Doubles given = to_doubles(node.attr_floats("kernel_params"));
    if (!given.empty() && given.size() != 3) fail("kernel_params are gamma, coef0 and degree");
    if (!given.empty()) std::copy_n(given.begin(), 3, parameters_);
  }

  double operator()(const double* a, const double* b, std::size_t n) const {
    const auto [gamma, offset, degree] = parameters_;
    switch (type_) {
      case Type::kLinear:
        return dot(a, b, n);
      case Type::kPoly:
        return std::pow(gamma * dot(a, b, n) + offset, std::trunc(degree));
      case Type::kSigmoid:
        return std::tanh(gamma * dot(a, b, n) + offset);
      case Type::kRbf: {
        double square = 0;
        for (std::size_t i = 0; i < n; ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
        return std::exp(-gamma * square);
      }
    }
    return 0;
  }

 private:
  enum class Type : std::uint8_t { kLinear, kPoly, kRbf, kSigmoid };
  static constexpr std::string_view kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  Type type_ = Type::kLinear;
  double parameters_[3] = {0, 0, 0};  // gamma, coef0, degree
};

Created create_svm_regressor(const KernelCreateContext& create) {
  const Node& node = create.node();
  const SvmKernel kernel(node);
  const Doubles coefficients = to_doubles(node.attr_floats("coefficients"));
  const Doubles vectors = to_doubles(node.attr_floats("support_vectors"));
  const Doubles rho = to_doubles(node.attr_floats("rho"));
  const auto supports =
      static_cast<std::size_t>(std::max<std::int64_t>(node.attr_int("n_supports", 0), 0));
  const bool one_class = node.attr_int("one_class", 0) != 0;
  const PostTransform transform = post_transform(node);
  // Without support vectors the coefficients are those of the features.
  const std::size_t width =
      supports == 0 ? coefficients.size() : vectors.size() / std::max<std::size_t>(supports, 1);
  if (rho.empty() || width == 0 ||
      (supports != 0 && (vectors.size() != supports * width || coefficients.size() != supports))) {
    fail("rho, the coefficients and the support vectors do not belong together");
  }
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    require_features(x, width);
    Tensor& y = k.output(0, DType::kFloat32, {row_count(x), 1});
    for_each_row(k, x, [&](std::int64_t row, const double* features) {
      double score = rho[0];
      if (supports == 0) score += dot(features, coefficients.data(), width);
      for (std::size_t s = 0; s < supports; ++s) {
        score += coefficients[s] * kernel(features, vectors.data() + s * width, width);
      }
      if (one_class) score = score > 0 ? 1 : -1;
      apply(transform, &score, 1);
      y.data<float>()[row] = static_cast<float>(score);
    });
  });
}

// Probabilities of classes from those of pairs: r[i][j] is that of i against j. The second method
// of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling"
// (2004): Σ (r[j][i] p[i] - r[i][j] p[j])² is least.
Doubles couple(const Doubles& r, std::size_t classes) {
  Doubles q(classes * classes, 0.0);
  for (std::size_t t = 0; t < classes; ++t) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (j == t) continue;
      q[t * classes + t] += r[j * classes + t] * r[j * classes + t];
      q[t * classes + j] = -r[j * classes + t] * r[t * classes + j];
    }
  }
  Doubles p(classes, 1.0 / static_cast<double>(classes));
  Doubles qp(classes);
  const double enough = 0.005 / static_cast<double>(classes);
  for (std::size_t round = 0; round < std::max<std::size_t>(100, classes); ++round) {
    double pqp = 0;
    for (std::size_t t = 0; t < classes; ++t) {
      qp[t] = dot(q.data() + t * classes, p.data(), classes);
      pqp += p[t] * qp[t];
    }
    double worst = 0;
    for (const double v : qp) worst = std::max(worst, std::fabs(v - pqp));
    if (worst < enough) break;
    for (std::size_t t = 0; t < classes; ++t) {
      const double own = q[t * classes + t];
      const double step = (pqp - qp[t]) / own;
      p[t] += step;
      pqp = (pqp + step * (step * own + 2 * qp[t])) / ((1 + step) * (1 + step));
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + step * q[t * classes + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

// One classifier for each pair of classes; or, without support vectors, one linear score for each
// class.
class SvmClassifier {
 public:
  explicit SvmClassifier(const Node& node)
      : labels(node, "classlabels_ints", "classlabels_strings"),
        transform(post_transform(node)),
        kernel_(node),
        coefficients_(to_doubles(node.attr_floats("coefficients"))),
        vectors_(to_doubles(node.attr_floats("support_vectors"))),
        rho_(to_doubles(node.attr_floats("rho"))),
        a_(to_doubles(node.attr_floats("prob_a"))),
        b_(to_doubles(node.attr_floats("prob_b"))),
        classes_(labels.size()) {
    std::size_t supports = 0;
    for (const std::int64_t count : node.attr_ints("vectors_per_class")) {
      if (count < 0 || static_cast<std::size_t>(count) > vectors_.size()) {
        fail("vectors_per_class has an entry that cannot be");
      }
      first_.push_back(supports);
      supports += static_cast<std::size_t>(count);
    }
    first_.push_back(supports);
    supports_ = supports;
    const std::size_t pairs = classes_ * (classes_ - 1) / 2;
    bool fits = classes_ >= 2;
    if (supports_ == 0) {
      fits = fits && !rho_.empty() && !coefficients_.empty() &&
             coefficients_.size() % classes_ == 0 && a_.empty();
      width_ = fits ? coefficients_.size() / classes_ : 0;
    } else {
      width_ = vectors_.size() / supports_;
      fits = fits && width_ != 0 && first_.size() == classes_ + 1 && rho_.size() == pairs &&
             vectors_.size() == supports_ * width_ &&
             coefficients_.size() == supports_ * (classes_ - 1) &&
             (a_.empty() || a_.size() == pairs) && a_.size() == b_.size();
    }
    if (!fits) fail("classes, rho, coefficients and support vectors do not belong together");
  }

  std::size_t features() const { return width_; }
  std::size_t score_count() const {
    if (supports_ == 0 || !a_.empty()) return classes_;
    return std::max<std::size_t>(classes_ * (classes_ - 1) / 2, 2);
  }

  // The class's index; its scores before the transform.
  std::size_t run(const double* x, Doubles& scores) const {
    if (supports_ == 0) {
      scores.assign(classes_, rho_[0]);
      for (std::size_t c = 0; c < classes_; ++c) {
        scores[c] += dot(x, coefficients_.data() + c * width_, width_);
      }
      return highest(scores);
    }
    Doubles values(supports_);
    for (std::size_t s = 0; s < supports_; ++s) {
      values[s] = kernel_(x, vectors_.data() + s * width_, width_);
    }
    Doubles votes(classes_, 0.0);
    scores.clear();
    for (std::size_t i = 0; i < classes_; ++i) {
      for (std::size_t j = i + 1; j < classes_; ++j) {
        const double score = rho_[scores.size()] + part(values, j - 1, i) + part(values, i, j);
        scores.push_back(score);
        votes[score > 0 ? i : j] += 1;
      }
    }
    if (!a_.empty()) {
      scores = probabilities(scores);
    } else if (scores.size() == 1) {
      scores = {-scores[0], scores[0]};
    }
    return highest(votes);
  }

  const ClassLabels labels;
  const PostTransform transform;

 private:
  // Of one class's support vectors, with their coefficients against another class.
  double part(const Doubles& values, std::size_t row, std::size_t of) const {
    return dot(coefficients_.data() + row * supports_ + first_[of], values.data() + first_[of],
               first_[of + 1] - first_[of]);
  }

  Doubles probabilities(const Doubles& scores) const {
    constexpr double kLeast = 1e-7;
    Doubles pairs(classes_ * classes_, 0.0);
    std::size_t at = 0;
    for (std::size_t i = 0; i < classes_; ++i) {
      for (std::size_t j = i + 1; j < classes_; ++j, ++at) {
        const double p = 1 / (1 + std::exp(scores[at] * a_[at] + b_[at]));
        pairs[i * classes_ + j] = std::clamp(p, kLeast, 1 - kLeast);
        pairs[j * classes_ + i] = 1 - pairs[i * classes_ + j];
      }
    }
    return couple(pairs, classes_);
  }

  SvmKernel kernel_;
  Doubles coefficients_, vectors_, rho_, a_, b_;
  std::size_t classes_, supports_ = 0, width_ = 0;
  std::vector<std::size_t> first_;  // support vector of each class, and the end
};

Created create_svm_classifier(const KernelCreateContext& create) {
  return make_kernel([svm = SvmClassifier(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, svm.labels.dtype(), {row_count(x)});
    Tensor& z =
        k.output(1, DType::kFloat32, {row_count(x), static_cast<std::int64_t>(svm.score_count())});
    require_features(x, svm.features());
    for_each_row(k, x, [&](std::int64_t row, const double* features) {
      Doubles scores;
      svm.labels.write(svm.run(features, scores), y, row);
      apply(svm.transform, scores.data(), scores.size());
      store_row(scores, z, row);
    });
  });
}

}  // namespace

void register_linear_model_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, auto create) {
    registry.add({.domain = "ai.onnx.ml",
                  .op = op,
                  .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                  .create = create});
  };
  add("LinearClassifier", create_linear_classifier);
  add("LinearRegressor", create_linear_regressor);
  add("SVMClassifier", create_svm_classifier);
  add("SVMRegressor", create_svm_regressor);
}

}  // namespace xrt::native
