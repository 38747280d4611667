#include "reports/snapshot/unpickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "reports/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kDepth = 1000;        // marks within marks
constexpr std::size_t kStack = 10'000'000;  // values waiting to be put into a container

const char* forbidden(unsigned char op) {
  switch (op) {
    case 'c':
      return "GLOBAL";
    case 0x93:
      return "STACK_GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
      return "NEWOBJ";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT";
    case 'P':
    case 'Q':
      return "PERSID";
    default:
      return nullptr;
  }
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Tree run() {
    if (bytes_.size() < 2 || byte() != 0x80)
      throw SnapshotError("is neither a pickle of protocol 2 or later nor JSON");
    if (const auto protocol = byte(); protocol < 2 || protocol > 5)
      fail(fmt::format("protocol {} is not one of 2 to 5", protocol));
    while (step()) {
    }
    return std::move(tree_);
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
  Id pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("takes a value where none is");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top(Type type) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("takes a value where none is");
    if (tree_[stack_.back()].type != type)
      fail(fmt::format("adds to {}, not to {}", name_of(tree_[stack_.back()].type), name_of(type)));
    return stack_.back();
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

  void append(const std::vector<Id>& values) {
    const Id list = top(Type::list);
    for (Id id : values) tree_.append(list, id);
  }
  void set(const std::vector<Id>& values) {
    if (values.size() % 2 != 0) fail("a key has no value");
    const Id dictionary = top(Type::dictionary);
    for (Id id : values) tree_.append(dictionary, id);
  }
  void tuple(const std::vector<Id>& values) {
    const Id list = tree_.list();
    for (Id id : values) tree_.append(list, id);
    push(list);
  }
  void tuple(std::size_t n) {
    std::vector<Id> values(n);
    for (std::size_t i = n; i-- > 0;) values[i] = pop();
    tuple(values);
  }

  void put(std::uint32_t at) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      fail("remembers a value where none is");
    memo_[at] = stack_.back();
  }
  void get(std::uint32_t at) {
    const auto found = memo_.find(at);
    if (found == memo_.end()) fail(fmt::format("recalls value {}, which was not remembered", at));
    push(found->second);
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

  bool step() {
    start_ = at_;
    const unsigned char op = byte();
    switch (op) {
      case '.':
        tree_.root = pop();
        if (!stack_.empty() || !marks_.empty()) fail("ends with values left over");
        return false;
      case 0x95:
        take(8);
        break;  // FRAME: a hint for readers of streams
      case '(':
        if (marks_.size() >= kDepth) fail("nested more than 1,000 deep");
        marks_.push_back(stack_.size());
        break;
      case '0':
        pop();
        break;
      case '1':
        above();
        break;
      case 'N':
        push(tree_.none());
        break;
      case 0x88:
        push(tree_.integer(1, Type::boolean));
        break;
      case 0x89:
        push(tree_.integer(0, Type::boolean));
        break;
      case 'J':
        push(tree_.integer(static_cast<std::int32_t>(number<std::uint32_t>())));
        break;
      case 'K':
        push(tree_.integer(byte()));
        break;
      case 'M':
        push(tree_.integer(number<std::uint16_t>()));
        break;
      case 0x8a:
        long_integer(byte());
        break;
      case 0x8b:
        long_integer(number<std::uint32_t>());
        break;
      case 'G':
        push(tree_.real(big_endian_real()));
        break;
      case 0x8c:
      case 'C':
      case 'U':
        push(tree_.text(take(byte())));
        break;
      case 'X':
      case 'B':
      case 'T':
        push(tree_.text(take(number<std::uint32_t>())));
        break;
      case 0x8d:
      case 0x8e:
        push(tree_.text(take(number<std::uint64_t>())));
        break;
      case '}':
        push(tree_.dictionary());
        break;
      case ']':
      case ')':
        push(tree_.list());
        break;
      case 't':
      case 'l':
        tuple(above());
        break;
      case 0x85:
        tuple(1);
        break;
      case 0x86:
        tuple(2);
        break;
      case 0x87:
        tuple(3);
        break;
      case 'd': {
        const auto values = above();
        push(tree_.dictionary());
        set(values);
        break;
      }
      case 'a': {
        const Id value = pop();
        append({value});
        break;
      }
      case 'e':
        append(above());
        break;
      case 's': {
        const Id value = pop(), key = pop();
        set({key, value});
        break;
      }
      case 'u':
        set(above());
        break;
      case 'q':
        put(byte());
        break;
      case 'r':
        put(number<std::uint32_t>());
        break;
      case 0x94:
        put(static_cast<std::uint32_t>(memo_.size()));
        break;
      case 'h':
        get(byte());
        break;
      case 'j':
        get(number<std::uint32_t>());
        break;
      default:
        refuse(op);
    }
    return true;
  }

  [[noreturn]] void refuse(unsigned char op) {
    const char* name = forbidden(op);
    if (name == nullptr)
      fail(fmt::format("opcode 0x{:02x} is none that a memory snapshot has", op));
    std::string what;
    if (op == 'c') {
      const auto end = bytes_.find('\n', bytes_.find('\n', at_) + 1);
      if (end != std::string_view::npos && end - at_ < 200)
        what = " (" + one_line(std::string(bytes_.substr(at_, end - at_))) + ")";
    }
    fail(fmt::format(
        "opcode {}{} would run code: this is not a memory snapshot, and nothing was run", name,
        what));
  }

  std::string_view bytes_;
  std::size_t at_ = 0, start_ = 0;
  Tree tree_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Id> memo_;
};

}  // namespace

Tree unpickle(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace tidemark
