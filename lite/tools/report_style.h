// SPDX-License-Identifier: Apache-2.0
// How the page of `xrt-lite-compile --report` looks. t0 to t7 are targets, in order of priority.
#pragma once

namespace xrt::lite {

inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark;
  --page: #f6f7f9; --panel: #ffffff; --ink: #1b2330; --soft: #5d6878; --line: #dde2e9;
  --t0: #3b76e0; --t1: #d9822b; --t2: #2f9e62; --t3: #8f5bd0; --t4: #cf4a5c; --t5: #2a9db0;
  --t6: #98792c; --t7: #6b7788; --scratch: #b4bcc8; --moved: #b0508f;
  --on: #ffffff; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161d; --panel: #1a2029; --ink: #e6eaf0; --soft: #97a3b4; --line: #2c3542;
  --t0: #6ea0ff; --t1: #e8a05a; --t2: #5cc48c; --t3: #b794f0; --t4: #ee7f8d; --t5: #5fc8d8;
  --t6: #cfae5e; --t7: #98a4b5; --scratch: #515d6e; --moved: #e08cc4;
  --on: #0d1117; } }
body { margin: 0 auto; padding: 24px; max-width: 1280px; background: var(--page);
  color: var(--ink); font: 14px/1.45 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 12px; overflow-wrap: anywhere; }
h2 { font-size: 14px; margin: 26px 0 6px; }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 12px; }
.facts dt { color: var(--soft); font-size: 12px; }
.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 0; }
.note { color: var(--soft); margin: 0 0 6px; }
i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 7px; }
svg { display: block; width: 100%; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; }
.grid { stroke: var(--line); }
.tick { fill: var(--soft); font-size: 12px; }
.name { fill: var(--on); font-size: 12px; pointer-events: none; }
.pale { opacity: .45; }
.heir { stroke: var(--on); stroke-width: 1.2; }
rect:hover { opacity: .75; }
.t0 { fill: var(--t0); background: var(--t0); } .t1 { fill: var(--t1); background: var(--t1); }
.t2 { fill: var(--t2); background: var(--t2); } .t3 { fill: var(--t3); background: var(--t3); }
.t4 { fill: var(--t4); background: var(--t4); } .t5 { fill: var(--t5); background: var(--t5); }
.t6 { fill: var(--t6); background: var(--t6); } .t7 { fill: var(--t7); background: var(--t7); }
.scratch { fill: var(--scratch); background: var(--scratch); }
.moved { fill: var(--moved); background: var(--moved); }
table { border-collapse: collapse; width: 100%; background: var(--panel);
  border: 1px solid var(--line); }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 500; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
)css";

}  // namespace xrt::lite
