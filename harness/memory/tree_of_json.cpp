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
  bool null() override { return put(tree.none()); }
  bool boolean(bool value) override { return put(tree.integer(value, Tree::Type::boolean)); }
  bool number_integer(number_integer_t value) override { return put(tree.integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return put(tree.integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return put(tree.real(value));
  }
  bool string(string_t& value) override { return put(tree.text(tree.keep(std::move(value)))); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override {
    append(tree.text(tree.keep(std::move(value))));
    return true;
  }
  bool start_object(std::size_t) override { return begin(tree.dictionary()); }
  bool start_array(std::size_t) override { return begin(tree.list()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    byte = at;
    return false;
  }
  Tree tree;
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
  bool begin(Id id) {
    put(id);
    if (open_.size() >= 1000) throw SnapshotError("nested more than 1,000 deep");
    open_.push_back(id);
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  std::vector<Id> open_;
};

}  // namespace

Tree tree_of_json(std::string_view bytes) {
  Builder builder;
  if (!nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &builder))
    throw SnapshotError(fmt::format("not JSON {} byte {}",
                                    builder.byte >= bytes.size() ? "after" : "at", builder.byte));
  return std::move(builder.tree);
}

}  // namespace tidemark
