#include "cases/tp_buffer_reuse/cost.h"

#include "cases/tp_buffer_reuse/dimensions.h"
#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {

std::vector<Verdict> cost(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const Dimensions d(trial);
  const auto verdict = [&](const std::string& operation, const std::string& form) {
    Formula formula{d.ranks == 1 ? "0" : "steps*q*L*(" + form + ")", {}};
    if (d.ranks > 1) {
      formula.values = {{"steps", trial.steps},
                        {"q", static_cast<double>(d.in_flight)},
                        {"L", static_cast<double>(d.layers)},
                        {"n_c", 2},
                        {"n_r", 2}};
    }
    const auto called = record.counters.collectives.find(operation);
    Verdict v;
    v.name = "cost/" + operation;
    v.variant = variant.name;
    v.rank = record.rank;
    v.low = v.high = formula.evaluate();
    v.formula = formula.text;
    v.values = formula.values;
    v.measured =
        called == record.counters.collectives.end() ? 0 : static_cast<double>(called->second);
    v.unit = "calls";
    v.status = v.measured == v.low ? Status::pass : Status::fail;
    return v;
  };
  // A column linear gathers in forward and scatters in backward, a row linear the other way round;
  // what is not kept is gathered once more.
  const bool again = layout_of(variant.name).recomputes();
  return {verdict("all_gather", again ? "n_c + n_r + n_c" : "n_c + n_r"),
          verdict("reduce_scatter", "n_c + n_r")};
}

}  // namespace tidemark::tp_buffer_reuse
