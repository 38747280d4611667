#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "harness/memory/unpickle.h"

namespace tidemark {
namespace {

using Id = Tree::Id;

/// nlohmann's events, straight into the tree: its own values would take ten times the memory.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(Tree& of, EventTaker& by) : tree(of), taker(by) {}
  bool null() override { return put(tree.none()); }
  bool boolean(bool value) override { return put(tree.integer(value, Tree::Type::boolean)); }
  bool number_integer(number_integer_t value) override { return put(tree.integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return put(tree.integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return put(tree.real(value));
  }
  bool string(string_t& value) override { return put(tree.own_text(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override {
    if (open_.size() == 1) in_traces_ = value == kTraces;
    append(tree.own_text(std::move(value)));
    return true;
  }
  /// An event is not put into its list before it is whole.
  bool start_object(std::size_t) override {
    return begin(tree.dictionary(), in_traces_ && open_.size() == kEvent);
  }
  bool start_array(std::size_t) override { return begin(tree.list()); }
  bool end_object() override {
    const Id id = open_.back();
    end();
    if (!in_traces_ || open_.size() != kEvent) return true;
    const bool lists =
        tree[open_[1]].type == Tree::Type::list && tree[open_[2]].type == Tree::Type::list;
    const std::size_t place = tree[open_[1]].size - 1;  // it is there already
    if (!lists || !taker.take(open_[2], place, std::span(&id, 1))) append(id);
    return true;
  }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    byte = at;
    return false;
  }
  Tree& tree;
  EventTaker& taker;
  std::size_t byte = 0;

 private:
  void append(Id id) { tree.append(open_.back(), std::span(&id, 1)); }
  bool put(Id id) {
    if (open_.empty()) {
      tree.root = id;
    } else {
      append(id);
    }
    return true;
  }
  bool begin(Id id, bool later = false) {
    if (!later) put(id);
    if (open_.size() >= 1000) throw SnapshotError("nested more than 1,000 deep");
    open_.push_back(id);
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  static constexpr std::size_t kEvent = 3;  // in the root, the list kTraces and a device's
  std::vector<Id> open_;
  bool in_traces_ = false;  // the root's last key was that
};

}  // namespace

void tree_of_json(std::string_view bytes, Tree& tree, EventTaker& taker) {
  Builder builder(tree, taker);
  if (!nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &builder))
    throw SnapshotError(fmt::format("not JSON {} byte {}",
                                    builder.byte >= bytes.size() ? "after" : "at", builder.byte));
}

}  // namespace tidemark
