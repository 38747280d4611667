#include "cases/tp_buffer_reuse/inspect.h"

#include "cases/tp_buffer_reuse/variants.h"
#include "harness/judge/counts.h"

namespace tidemark::tp_buffer_reuse {

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const auto verdict = [&](const std::string& operation, const std::string& form) {
    Formula expected{"0", {}};
    if (trial.ranks > 1) {
      expected = {"steps*q*L*(" + form + ")",
                  {{"steps", trial.steps},
                   {"q", static_cast<double>(trial["in_flight"])},
                   {"L", static_cast<double>(trial["layers"])},
                   {"n_c", 2},
                   {"n_r", 2}}};
    }
    const auto called = record.counters.collectives.find(operation);
    const bool none = called == record.counters.collectives.end();
    return equal("cost/" + operation, expected, none ? 0 : static_cast<double>(called->second),
                 "calls");
  };
  // A column linear gathers in forward and scatters in backward, a row linear the other way round;
  // what is not kept is gathered once more.
  const bool again = variants()[variant.name].recomputes();
  return {verdict("all_gather", again ? "n_c + n_r + n_c" : "n_c + n_r"),
          verdict("reduce_scatter", "n_c + n_r")};
}

}  // namespace tidemark::tp_buffer_reuse
