#include "reports/bisect/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/bisect/text.h"
#include "reports/html.h"
#include "reports/kind_bars.h"
#include "reports/program/finding.h"
#include "reports/program/provenance.h"

namespace tidemark {
namespace {

std::vector<Picture> pictures(const BisectRecord& record) {
  std::vector<KindBar> bars;
  for (const BisectVersion& one : record.versions) {
    if (!one.run || !one.run->alive) continue;
    const auto change = std::ranges::find(record.changes, one.version, &BisectChange::to);
    bars.push_back({one.version, one.title, &*one.run->alive,
                    change == record.changes.end() ? "" : change_line(record, *change)});
  }
  return kind_bars("Peak by version, by kind of memory", bars);
}

std::string made_with(const BisectRecord& record) {
  std::string out = version_text(record.run);
  if (!record.run.profile.empty()) out += ", virtual " + record.run.profile;
  if (!record.run.started.empty())
    out += ", " + record.run.started.substr(0, record.run.started.find('T'));
  return out;
}

}  // namespace

std::string bisect_page(const BisectRecord& record) {
  Document page;
  page.command = "bisect";
  page.headline = script_of(record.program) + ": " + bisect_headline(record);
  page.status = record.changes.empty() ? Status::pass : Status::fail;
  page.facts = {made_with(record), command_of(record.run, "bisect", record.program)};
  page.markdown = bisect_markdown(record);
  page.sections.push_back({"", bisect_lines(record), {}, {}, {}, pictures(record)});
  page.sections.push_back({"Versions", {}, {}, bisect_rows(record)});
  for (Section& section : change_sections(record, 40)) page.sections.push_back(std::move(section));
  page.sections.push_back({"How it was found", record.notes, {}, {}});
  return html(page);
}

}  // namespace tidemark
