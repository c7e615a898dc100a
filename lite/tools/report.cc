// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/text.h"
#include "kernel_names.h"
#include "report_style.h"

namespace xrt::lite {
namespace {

// Of the drawings, in units of the view box.
constexpr double kLeft = 78, kRight = 12, kWidth = 1200, kTop = 14, kBottom = 30;
constexpr double kPlot = kWidth - kLeft - kRight;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string bytes_text(std::size_t bytes) { return cli::bytes_text(static_cast<double>(bytes)); }

std::string work_text(double work) {
  if (work >= 1e9) return fmt::format("{:.2f} G", work / 1e9);
  if (work >= 1e6) return fmt::format("{:.2f} M", work / 1e6);
  if (work >= 1e3) return fmt::format("{:.1f} k", work / 1e3);
  return fmt::format("{:.0f}", work);
}

// 1, 2 or 5 times a power of ten (of two where the axis counts bytes), for about five ticks.
double tick_step(double most, bool binary) {
  const double wanted = std::max(most / 5, 1.0);
  double step = 1;
  if (binary) {
    while (step < wanted) step *= 2;
    return step;
  }
  while (step * 10 <= wanted) step *= 10;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor >= wanted) return step * factor;
  }
  return step * 10;
}

// One op, or one transfer between memories (no target).
struct Row {
  int time = 0, target = -1;
  std::string name, kernel, place;
  double work = 0;
  std::size_t weights = 0, reads = 0, writes = 0;
  std::string style() const { return target < 0 ? "moved" : fmt::format("t{}", target); }
};

class Page {
 public:
  Page(const Module& module, std::string title, std::size_t file_bytes)
      : m_(module), title_(std::move(title)), file_bytes_(file_bytes) {}

  std::string run() {
    find_rows();
    out_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{0}</title>\n<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
        escaped(title_), kReportStyle);
    facts();
    memories();
    bars("Multiply-adds per step", false, [](const Row& r) { return std::vector<double>{r.work}; });
    bars("Bytes per step: weights (full), values read and written (pale)", true, [](const Row& r) {
      return std::vector<double>{static_cast<double>(r.weights),
                                 static_cast<double>(r.reads + r.writes)};
    });
    ports();
    ops();
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  void find_rows() {
    for (const ModuleOp& op : m_.ops) {
      Row r;
      r.time = op.time, r.target = op.target, r.work = op.work;
      r.name = op.name, r.kernel = kernel_name(op.kernel);
      r.place = m_.targets[static_cast<std::size_t>(op.target)]->name();
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const Operand& o = op.operands[k];
        const bool written = static_cast<int>(k) == op.output;
        (o.at == Operand::At::kConstant ? r.weights : written ? r.writes : r.reads) += o.bytes;
      }
      rows_.push_back(std::move(r));
    }
    for (const ModuleStep& step : m_.steps) {
      if (step.function >= 0) continue;
      const Storage& from = m_.storages[static_cast<std::size_t>(step.from)];
      const Storage& to = m_.storages[static_cast<std::size_t>(step.to)];
      Row r;
      r.time = step.time, r.name = from.name, r.kernel = "transfer";
      r.place = memory_name(from.device) + " → " + memory_name(to.device);
      r.reads = r.writes = storage_bytes(m_, from);
      rows_.push_back(std::move(r));
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const Row& a, const Row& b) { return a.time < b.time; });
  }

  std::string memory_name(int device) const {
    return device < 0 ? "host" : m_.targets[static_cast<std::size_t>(device)]->name();
  }
  double step_width() const { return kPlot / static_cast<double>(std::max(1, m_.times)); }
  double x_of(double step) const { return kLeft + step * step_width(); }

  void facts() {
    double work = 0;
    for (const ModuleOp& op : m_.ops) work += op.work;
    const double share =
        m_.largest_live_bytes == 0
            ? 1.0
            : static_cast<double>(m_.arena_bytes) / static_cast<double>(m_.largest_live_bytes);
    out_ += "<dl class=\"facts\">";
    const auto fact = [&](const char* name, const std::string& value) {
      out_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
    };
    fact("ops", std::to_string(m_.ops.size()));
    fact("multiply-adds", work_text(work));
    fact("file", bytes_text(file_bytes_));
    fact("weights", bytes_text(m_.weight_bytes));
    fact("arena", bytes_text(m_.arena_bytes));
    fact("largest live set",
         fmt::format("{} (arena: {:.3f} ×)", bytes_text(m_.largest_live_bytes), share));
    for (std::size_t t = 0; t < m_.targets.size(); ++t) {
      if (m_.device_arena_bytes[t] == 0) continue;
      fact(("arena of " + m_.targets[t]->name()).c_str(), bytes_text(m_.device_arena_bytes[t]));
    }
    out_ += "</dl>\n<p class=\"legend\">";
    for (std::size_t t = 0; t < m_.targets.size(); ++t) {
      const auto count = std::count_if(m_.ops.begin(), m_.ops.end(), [&](const ModuleOp& op) {
        return op.target == static_cast<int>(t);
      });
      out_ +=
          fmt::format("<span><i class=\"t{}\"></i>{}: {}</span>", t, escaped(m_.targets[t]->name()),
                      cli::plural(static_cast<std::size_t>(count), "op"));
    }
    out_ += "<span><i class=\"scratch\"></i>scratch of one op</span>";
    if (rows_.size() > m_.ops.size()) {
      out_ += "<span><i class=\"moved\"></i>transfer between memories</span>";
    }
    out_ += "</p>\n";
  }

  void open_drawing(const std::string& name, const std::string& note, double height) {
    out_ += fmt::format("<h2>{}</h2>\n", escaped(name));
    if (!note.empty()) out_ += fmt::format("<p class=\"note\">{}</p>\n", note);
    out_ += fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                        height, escaped(name));
  }

  // Lines and numbers of the vertical axis, numbers of steps below.
  void axes(double most, bool binary, double height) {
    const double plot = height - kTop - kBottom, step = tick_step(most, binary);
    for (double v = 0; v <= most + step * 1e-6; v += step) {
      const double y = kTop + plot * (1 - (most > 0 ? v / most : 0));
      out_ += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          kLeft, kWidth - kRight, y, y, kLeft - 8, y + 4,
          binary ? cli::bytes_text(v) : work_text(v));
      if (most <= 0) break;
    }
    const auto steps = static_cast<double>(m_.times);
    for (double s = 0, by = std::max(1.0, tick_step(steps * 5 / 12, false)); s < steps; s += by) {
      out_ += fmt::format(
          "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
          x_of(s + 0.5), height - kBottom + 17, s);
    }
  }

  // Of what writes a buffer first.
  std::string style_of(int storage) const {
    for (const ModuleOp& op : m_.ops) {
      if (op.scratch == storage) return "scratch";
      const Operand& y = op.operands[static_cast<std::size_t>(op.output)];
      if (y.at == Operand::At::kStorage && y.index == storage) return fmt::format("t{}", op.target);
    }
    return "moved";
  }

  void memories() {
    if (m_.arena_bytes > 0) memory("Arena", -1, m_.arena_bytes);
    for (std::size_t t = 0; t < m_.targets.size(); ++t) {
      if (m_.device_arena_bytes[t] == 0) continue;
      memory("Arena of " + m_.targets[t]->name(), static_cast<int>(t), m_.device_arena_bytes[t]);
    }
  }

  void memory(const std::string& name, int device, std::size_t arena_bytes) {
    constexpr double kHeight = 460;
    open_drawing(name,
                 "Each rectangle is a buffer: from the step that writes it to the step that reads "
                 "it last, at its place in the arena. One that takes over the memory of another, "
                 "in place, is outlined.",
                 kHeight);
    const auto most = static_cast<double>(arena_bytes);
    axes(most, true, kHeight);
    const double plot = kHeight - kTop - kBottom;
    for (std::size_t i = 0; i < m_.storages.size(); ++i) {
      const Storage& s = m_.storages[i];
      if (s.device != device || s.input >= 0 || s.output >= 0 || s.bytes == 0 || most == 0) {
        continue;
      }
      int last = s.last;
      for (const Storage& heir : m_.storages) {  // it takes over within the step
        if (heir.shares == static_cast<int>(i)) last = std::min(last, heir.first - 1);
      }
      if (last < s.first) continue;
      const double x = x_of(s.first), width = step_width() * (last - s.first + 1);
      const double height = plot * static_cast<double>(s.bytes) / most;
      const double y = kTop + plot * (1 - static_cast<double>(s.offset) / most) - height;
      out_ += fmt::format(
          "<rect class=\"buffer {}{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
          "height=\"{:.2f}\"><title>{}\n{} at {}\nsteps {} to {}{}</title></rect>\n",
          style_of(static_cast<int>(i)), s.shares >= 0 ? " heir" : "", x, y,
          std::max(width - 0.4, 0.4), std::max(height - 0.4, 0.4), escaped(s.name),
          bytes_text(s.bytes), s.offset, s.first, s.last, s.shares >= 0 ? ", in place" : "");
      // The name where there is room for it, else its size, else nothing.
      const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 10) / 6.8));
      const std::string label = s.name.size() <= letters ? s.name : bytes_text(s.bytes);
      if (height > 15 && label.size() <= letters) {
        out_ += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 5,
                            y + height / 2 + 4, escaped(label));
      }
    }
    out_ += "</svg>\n";
  }

  template <typename Values>
  void bars(const std::string& name, bool binary, Values values) {
    constexpr double kHeight = 210;
    open_drawing(name, "", kHeight);
    double most = 0;
    for (const Row& r : rows_) {
      double sum = 0;
      for (const double v : values(r)) sum += v;
      most = std::max(most, sum);
    }
    axes(most, binary, kHeight);
    const double plot = kHeight - kTop - kBottom;
    for (const Row& r : rows_) {
      double below = 0;
      int part = 0;
      for (const double v : values(r)) {
        const double height = most > 0 ? plot * v / most : 0;
        if (height > 0) {
          out_ += fmt::format(
              "<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
              "height=\"{:.2f}\"><title>{}: {}\n{}, {}\n{}</title></rect>\n",
              r.style(), part > 0 ? " pale" : "", x_of(r.time), kTop + plot - below - height,
              std::max(step_width() - 0.6, 0.3), height, r.time, escaped(r.name), r.kernel,
              escaped(r.place), binary ? cli::bytes_text(v) : work_text(v) + " multiply-adds");
        }
        below += height;
        ++part;
      }
    }
    out_ += "</svg>\n";
  }

  void ports() {
    out_ +=
        "<h2>Inputs and outputs</h2>\n<table><tr><th></th><th>name</th><th>type</th>"
        "<th class=\"n\">bytes</th></tr>\n";
    const auto rows = [&](const char* kind, const std::vector<ModulePort>& list) {
      for (const ModulePort& p : list) {
        out_ += fmt::format("<tr><td>{}</td><td>{}</td><td>{}{}</td><td class=\"n\">{}</td></tr>\n",
                            kind, escaped(p.name), to_string(p.dtype), to_string(p.dims),
                            bytes_text(byte_count(p.dtype, p.dims)));
      }
    };
    rows("input", m_.inputs);
    rows("output", m_.outputs);
    out_ += "</table>\n";
  }

  void ops() {
    out_ +=
        "<h2>Steps</h2>\n<table><tr><th class=\"n\">step</th><th>op</th><th>kernel</th>"
        "<th>target</th><th class=\"n\">multiply-adds</th><th class=\"n\">weights</th>"
        "<th class=\"n\">read</th><th class=\"n\">written</th></tr>\n";
    for (const Row& r : rows_) {
      out_ += fmt::format(
          "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td><i class=\"{}\"></i>{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
          "<td class=\"n\">{}</td></tr>\n",
          r.time, escaped(r.name), r.kernel, r.style(), escaped(r.place), work_text(r.work),
          bytes_text(r.weights), bytes_text(r.reads), bytes_text(r.writes));
    }
    out_ += "</table>\n";
  }

  const Module& m_;
  std::string title_;
  std::size_t file_bytes_;
  std::vector<Row> rows_;  // in the order of a run
  std::string out_;
};

}  // namespace

std::string report_html(const Module& module, const std::string& title, std::size_t file_bytes) {
  return Page(module, title, file_bytes).run();
}

}  // namespace xrt::lite
