#include "harness/memory/unpickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <unordered_map>

#include "harness/record/budget.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kDepth = 1000;        // marks within marks
constexpr std::size_t kStack = 10'000'000;  // values waiting to be put into a container

/// Opcodes that import, call or build something.
struct Forbidden {
  unsigned char op;
  const char* name;
};
constexpr Forbidden kForbidden[] = {
    {'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},     {'b', "BUILD"}, {'i', "INST"},
    {'o', "OBJ"},    {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"}, {0x82, "EXT"},  {0x83, "EXT"},
    {0x84, "EXT"},   {'P', "PERSID"},        {'Q', "PERSID"}};

class Machine {
 public:
  Machine(std::string_view bytes, Tree& tree, EventTaker& taker)
      : bytes_(bytes), tree_(tree), taker_(taker) {}

  std::string place() const { return fmt::format("byte {}", start_); }

  void run() {
    const ReadingAt at(*this);
    if (bytes_.size() < 2 || byte() != 0x80)
      throw SnapshotError("is neither a pickle of protocol 2 or later nor JSON");
    if (const auto protocol = byte(); protocol < 2 || protocol > 5)
      fail(fmt::format("protocol {} is not one of 2 to 5", protocol));
    for (;;) {
      start_ = at_;
      const unsigned char op = byte();
      if (op == '.') break;
      execute(op);
    }
    tree_.root = pop();
    if (!stack_.empty() || !marks_.empty()) fail("ends with values left over");
  }

 private:
  using Id = Tree::Id;
  using Type = Tree::Type;

  [[noreturn]] void fail(const std::string& what) const {
    throw SnapshotError(fmt::format("byte {}: {}", start_, what));
  }

  unsigned char byte() { return static_cast<unsigned char>(take(1)[0]); }
  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) {
      start_ = bytes_.size();
      fail("the file ends within a value: it is cut off");
    }
    const auto out = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += out.size();
    return out;
  }
  template <class Unsigned>
  Unsigned number() {
    const auto raw = take(sizeof(Unsigned));
    Unsigned out = 0;
    for (std::size_t i = 0; i < raw.size(); ++i)
      out |= static_cast<Unsigned>(static_cast<Unsigned>(static_cast<unsigned char>(raw[i]))
                                   << (8 * i));
    return out;
  }

  void push(Id id) {
    if (stack_.size() >= kStack) fail("more than 10,000,000 values wait for their container");
    stack_.push_back(id);
  }
  /// Fails where nothing stands above the last mark.
  void need_value(const char* what) const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail(what);
  }
  Id pop() {
    need_value("takes a value where none is");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  std::vector<Id> topmost(std::size_t n) {
    std::vector<Id> values(n);
    for (std::size_t i = n; i-- > 0;) values[i] = pop();
    return values;
  }
  /// The values above the last mark, which goes with them.
  std::vector<Id> above() {
    if (marks_.empty()) fail("takes values down to a mark where none is");
    const auto from = static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> out(stack_.begin() + from, stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }

  /// To the list or dictionary (keys and values in turn) on top.
  void append(Type type, const std::vector<Id>& values) {
    if (type == Type::dictionary && values.size() % 2 != 0) fail("a key has no value");
    need_value("takes a value where none is");
    const Id container = stack_.back();
    if (tree_[container].type != type)
      fail(fmt::format("adds to {}, not to {}", name_of(tree_[container].type), name_of(type)));
    if (type == Type::list) {
      if (const auto place = place_among_traces(); place && taker_.take(container, *place, values))
        return;
      if (is_of_blocks() && taker_.take_blocks(container, values)) return;
    }
    tree_.append(container, values);
  }
  /// The place of the list on top, where it stands behind the list kTraces, alone or with others
  /// that wait for it.
  std::optional<std::size_t> place_among_traces() const {
    const std::size_t top = stack_.size() - 1;
    for (const std::size_t of : {top - 1, marks_.empty() ? 0 : marks_.back() - 1})
      if (of > 0 && of < top && tree_[stack_[of]].type == Type::list &&
          tree_[stack_[of - 1]].type == Type::text && tree_.text_of(stack_[of - 1]) == kTraces)
        return tree_[stack_[of]].size + (top - of - 1);
    return std::nullopt;
  }
  /// True where the list on top stands behind the key kBlocks.
  bool is_of_blocks() const {
    if (stack_.size() < 2) return false;
    const Id key = stack_[stack_.size() - 2];
    return tree_[key].type == Type::text && tree_.text_of(key) == kBlocks;
  }
  void tuple(const std::vector<Id>& values) {
    push(tree_.list());
    append(Type::list, values);
  }

  void put(std::uint32_t at) {
    need_value("remembers a value where none is");
    tree_.share(stack_.back());
    if (at > memo_.size()) {
      later_[at] = stack_.back();
    } else if (at < memo_.size()) {
      memo_[at] = stack_.back();
    } else {  // as every pickle is written
      memo_.push_back(stack_.back());
      later_.erase(at);
    }
  }
  void get(std::uint32_t at) {
    if (at < memo_.size()) return push(memo_[at]);
    const auto later = later_.find(at);
    if (later == later_.end()) fail(fmt::format("recalls value {}, which was not remembered", at));
    push(later->second);
  }

  void long_integer(std::uint64_t n) {
    if (n > 9) fail("an integer of more than 64 bits");
    const auto raw = take(n);
    std::uint64_t value = !raw.empty() && (raw.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const auto one = static_cast<unsigned char>(raw[i]);
      if (i == 8) {  // the sign of a 64-bit number without one
        if (one != 0) fail("an integer of more than 64 bits");
        continue;
      }
      value = (value & ~(std::uint64_t{0xff} << (8 * i))) | std::uint64_t{one} << (8 * i);
    }
    push(tree_.integer(static_cast<std::int64_t>(value)));
  }

  double big_endian_real() {
    const auto raw = take(8);
    std::uint64_t bits = 0;
    for (char c : raw) bits = bits << 8 | static_cast<unsigned char>(c);
    return std::bit_cast<double>(bits);
  }

  void execute(unsigned char op) {
    switch (op) {
      case 0x95:  // FRAME: a hint for readers of streams
        take(8);
        return;
      case '(':
        if (marks_.size() >= kDepth) fail("nested more than 1,000 deep");
        return marks_.push_back(stack_.size());
      case '0':
        pop();
        return;
      case '1':
        above();
        return;
      case 'N':
        return push(tree_.none());
      case 0x88:
      case 0x89:
        return push(tree_.integer(op == 0x88, Type::boolean));
      case 'J':
        return push(tree_.integer(static_cast<std::int32_t>(number<std::uint32_t>())));
      case 'K':
        return push(tree_.integer(byte()));
      case 'M':
        return push(tree_.integer(number<std::uint16_t>()));
      case 0x8a:
        return long_integer(byte());
      case 0x8b:
        return long_integer(number<std::uint32_t>());
      case 'G':
        return push(tree_.real(big_endian_real()));
      case 0x8c:
      case 'C':
      case 'U':
        return push(tree_.text(take(byte())));
      case 'X':
      case 'B':
      case 'T':
        return push(tree_.text(take(number<std::uint32_t>())));
      case 0x8d:
      case 0x8e:
        return push(tree_.text(take(number<std::uint64_t>())));
      case '}':
        return push(tree_.dictionary());
      case ']':
      case ')':
        return push(tree_.list());
      case 't':
      case 'l':
        return tuple(above());
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(topmost(op - 0x84U));
      case 'd': {
        const auto values = above();
        push(tree_.dictionary());
        return append(Type::dictionary, values);
      }
      case 'a':
        return append(Type::list, topmost(1));
      case 'e':
        return append(Type::list, above());
      case 's':
        return append(Type::dictionary, topmost(2));
      case 'u':
        return append(Type::dictionary, above());
      case 'q':
        return put(byte());
      case 'r':
        return put(number<std::uint32_t>());
      case 0x94:
        return put(static_cast<std::uint32_t>(memo_.size() + later_.size()));
      case 'h':
        return get(byte());
      case 'j':
        return get(number<std::uint32_t>());
      default:
        refuse(op);
    }
  }

  [[noreturn]] void refuse(unsigned char op) {
    const auto* known = std::ranges::find(kForbidden, op, &Forbidden::op);
    if (known == std::end(kForbidden))
      fail(fmt::format("unexpected pickle opcode 0x{:02x} in a memory snapshot", op));
    std::string what;
    if (op == 'c') {
      const auto end = bytes_.find('\n', bytes_.find('\n', at_) + 1);
      if (end != std::string_view::npos && end - at_ < 200)
        what = " (" + one_line(std::string(bytes_.substr(at_, end - at_))) + ")";
    }
    fail(fmt::format(
        "opcode {}{} would run code: this is not a memory snapshot, and nothing was run",
        known->name, what));
  }

  std::string_view bytes_;
  std::size_t at_ = 0, start_ = 0;
  Tree& tree_;
  EventTaker& taker_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::deque<Id> memo_;                          // by their numbers from 0 on
  std::unordered_map<std::uint32_t, Id> later_;  // remembered with a number beyond those
};

}  // namespace

void unpickle(std::string_view bytes, Tree& tree, EventTaker& taker) {
  Machine(bytes, tree, taker).run();
}

}  // namespace tidemark
