#include "cases/tp_buffer_reuse/forms.h"

#include <algorithm>
#include <set>

#include "cases/tp_buffer_reuse/amounts.h"
#include "cases/tp_buffer_reuse/moments.h"

namespace tidemark::tp_buffer_reuse {
namespace {

using Moments = std::vector<FormMoment>;

class Paper {
 public:
  Paper(const Dimensions& sizes, const Layout& layout)
      : d_(sizes),
        layout_(layout),
        rest_(!layout.recomputes() || sizes.ranks == 1 ? "rest"
              : layout.overlaps()                      ? "rest + 2*b"
                                                       : "rest + b"),
        layer_("(" + kept(sizes, layout).text() + ")"),
        in_flight_(rest_ + " + q*(X + L*" + layer_ + ")") {}

  Moments forward(const reference::DeviceFacts& device) const {
    Moments all{{"the last row linear", in_flight_ + (d_.ranks > 1 ? " + F" : " + X")}};
    if (reference::AttentionPlan(d_.attention(), device.processors).split_output > 0) {
      all.push_back({"the last attention", rest_ + (d_.in_flight > 1 ? " + (q - 1)*X" : "") +
                                               layers("q*L - 1", d_.in_flight * d_.layers - 1) +
                                               " + " + within_attention(d_, layout_).text()});
    }
    return all;
  }
  Moments forward_end() const { return {{"all microbatches in flight", in_flight_}}; }

  Moments backward() const {
    Moments all;
    for (const auto& o : backward_operators(d_, layout_)) {
      for (const auto i :
           std::set<std::int64_t>{d_.layers, std::max<std::int64_t>(1, d_.layers - 1), 1}) {
        all.push_back(in_first(o, i));
      }
      if (d_.in_flight > 1) all.push_back(in_second(o));
    }
    return all;
  }
  Moments gradients() const { return {{"every gradient made", rest_ + " + L*P"}}; }
  /// Adam's one temporary is as large as the parameters.
  Moments optimizer() const { return {{"Adam's denominators", rest_ + " + 2*L*P"}}; }

 private:
  /// What `count` layers keep, where there are any.
  std::string layers(const std::string& text, std::int64_t count) const {
    return count == 0 ? "" : " + (" + text + ")*" + layer_;
  }

  /// An operator in the first microbatch, with `i` layers whose backward is not over.
  FormMoment in_first(const Operator& o, std::int64_t i) const {
    // The output's gradient, and the residual stream's.
    const Sum held{{"X", o.residual || i < d_.layers ? 2 : 1}};
    return {o.name + " of layer " + std::to_string(i) + ", first microbatch",
            rest_ + " + q*X" + layers("(q - 1)*L + i - 1", (d_.in_flight - 1) * d_.layers + i - 1) +
                (i < d_.layers ? " + (L - i)*P" : "") + " + " +
                (held + o.layer + o.made + o.before + o.weight).text(),
            {{"i", static_cast<double>(i)}}};
  }

  /// An operator in the top layer of the second microbatch: every parameter has its gradient.
  FormMoment in_second(const Operator& o) const {
    const Sum held{{"X", o.residual ? 2 : 1}};
    return {o.name + " of the top layer, second microbatch",
            rest_ + " + (q - 1)*X" + layers("(q - 1)*L - 1", (d_.in_flight - 1) * d_.layers - 1) +
                " + L*P + " + (held + o.layer + o.made + o.weight).text()};
  }

  const Dimensions d_;
  const Layout layout_;
  const std::string rest_, layer_, in_flight_;
};

}  // namespace

std::vector<Expectation> forms(const Dimensions& d, const Layout& layout,
                               const reference::DeviceFacts& device) {
  const auto vocabulary = amounts(d, device);
  const Paper paper(d, layout);
  std::vector<Expectation> all;
  const auto add = [&](const std::string& phase, bool at_end, const Moments& moments) {
    const auto more = vocabulary.forms(
        phase, at_end, {Statistic::requested, Statistic::allocated, Statistic::active}, moments);
    all.insert(all.end(), more.begin(), more.end());
  };
  add("forward", false, paper.forward(device));
  add("forward", true, paper.forward_end());
  add("backward", false, paper.backward());
  add("backward", true, paper.gradients());
  add("optimizer", false, paper.optimizer());
  add("optimizer", true, paper.gradients());
  return all;
}

}  // namespace tidemark::tp_buffer_reuse
