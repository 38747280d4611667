#include "reports/stills.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/record/units.h"
#include "reports/html.h"
#include "reports/markup.h"
#include "reports/overview.h"
#include "reports/page_data.h"
#include "reports/saving.h"
#include "reports/still.h"

namespace tidemark {
namespace {

constexpr std::size_t kMoments = 400;

std::optional<MemoryPicture> picture_in(const TrialRecord& trial, const std::string& name) {
  const VariantRecord* variant = variant_in(trial, name);
  return variant == nullptr ? std::nullopt : picture_of(*variant, kMoments);
}

Bytes height_of(const MemoryPicture& picture) {
  return std::max<Bytes>(std::ranges::max(active_of(picture)), std::ranges::max(picture.reserved));
}

std::string side(const std::string& name, Bytes peak, const MemoryPicture& picture, Bytes highest) {
  return fmt::format(
      "<figure><figcaption>{}: {}</figcaption>{}<h4>Alive at its peak</h4>{}</figure>",
      markup_text(name), bytes_text(peak), still_memory(picture, 0, highest),
      table_html(alive_by_kind(picture)));
}

/// The fix that saves most, beside its baseline and on its scale; empty where none ran.
std::string pair_html(const Overview& group) {
  const TrialRecord* trial = telling_trial(group);
  if (trial == nullptr) return "";
  const std::vector<Saving> all = savings_of(*trial);
  const auto best = std::ranges::max_element(all, {}, &Saving::saved);
  if (best == all.end() || !best->before) return "";
  const auto before = picture_in(*trial, best->baseline), after = picture_in(*trial, best->fix);
  const Bytes highest = before && after ? std::max(height_of(*before), height_of(*after)) : 0;
  return fmt::format("<p class=\"lede\">{} saves {}, under {}.</p>", markup_text(best->fix),
                     markup_text(saved_text(*best)), markup_text(trial->schedule)) +
         (before && after
              ? "<div class=\"duo\">" + side(best->baseline, *best->before, *before, highest) +
                    side(best->fix, best->after, *after, highest) + "</div>"
              : "<p class=\"quiet\">No picture of its memory was kept.</p>");
}

/// The outcome of a group without a drawing of its memory.
std::string outcome_html(const Overview& group) {
  const GroupOutcome outcome = outcome_of({&group});
  return fmt::format("<p><span class=\"status {}\">{}</span></p>", name_of(outcome.status),
                     markup_text(outcome.text));
}

}  // namespace

std::string stills(const Report& report) {
  const std::vector<Overview> groups = overviews(report);
  std::map<std::string, std::pair<Bytes, const Overview*>>
      told;  // where most is saved, by scenario
  for (const Overview& group : groups) {
    auto& [most, of] = told.try_emplace(group.trials[0]->scenario, 0, nullptr).first->second;
    const TrialRecord* trial = telling_trial(group);
    if (trial == nullptr) continue;
    for (const Saving& one : savings_of(*trial))
      if (of == nullptr || one.saved() > most) most = one.saved(), of = &group;
  }
  std::string out;
  std::map<std::string, int> places;  // of groups among those of a scenario, as main.js counts
  for (const Overview& group : groups) {
    const TrialRecord& first = *group.trials[0];
    const int place = places[first.scenario]++;
    const std::string id =
        fmt::format("/{}?trial={}", percent_encoded(first.scenario, "_-"), place);
    out += fmt::format(
        "<section class=\"still\" id=\"{}\"><h2>{}</h2><p class=\"quiet\">{}</p>{}</section>\n", id,
        markup_text(group.title()), markup_text(group.detail()),
        told[first.scenario].second == &group ? pair_html(group) : outcome_html(group));
  }
  if (out.empty()) return "";
  return out +
         "<section class=\"still\" id=\"/-/assertions?status=fail\"><h2>All verdicts</h2><p>Their "
         "list needs a script. <a href=\"report.json\">report.json</a> has each verdict, and <a "
         "href=\"junit.xml\">junit.xml</a> those that failed.</p></section>\n";
}

}  // namespace tidemark
