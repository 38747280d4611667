// The JSON that readers use against nlohmann's: the same texts are JSON, with the same values.
#include <nlohmann/json.hpp>

#include "harness/record/json_document.h"
#include "harness/testing/property.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using testing::damaged;
using testing::for_all;

void expect_same(JsonValue mine, const Json& other) {
  RC_ASSERT(mine.type_name() == std::string(other.type_name()));
  RC_ASSERT(mine.size() == other.size());
  RC_ASSERT(mine.is_number_integer() == other.is_number_integer());
  RC_ASSERT(mine.is_number_unsigned() == other.is_number_unsigned());
  RC_ASSERT(Json::parse(mine.source()) == other);
  if (other.is_string()) RC_ASSERT(mine.text() == other.get<std::string>());
  if (other.is_boolean()) RC_ASSERT(mine.boolean() == other.get<bool>());
  if (other.is_number()) RC_ASSERT(mine.number() == other.get<double>());
  if (other.is_number_unsigned())
    RC_ASSERT(mine.natural() == other.get<std::uint64_t>());
  else if (other.is_number_integer())
    RC_ASSERT(mine.integer() == other.get<std::int64_t>());
  if (other.is_array()) {
    for (std::size_t i = 0; i < other.size(); ++i) expect_same(mine[i], other[i]);
    std::size_t visited = 0;
    mine.each([&](const JsonValue& item, std::size_t i) {
      RC_ASSERT(i == visited++);
      RC_ASSERT(item.source() == mine[i].source());
    });
    RC_ASSERT(visited == other.size());
  }
  RC_ASSERT(!mine.contains("no such key"));
  if (!other.is_object()) return;
  std::size_t i = 0;
  for (const auto& [key, value] : other.items()) {
    RC_ASSERT(mine.key(i) == key);
    RC_ASSERT(mine.find(key).has_value());
    expect_same(*mine.find(key), value);
    expect_same(mine.member(i++), value);
  }
}

std::string any_text() {
  return *rc::gen::container<std::string>(
      rc::gen::element('a', '"', '\\', '/', '\n', '\x01', 'u', '[', '}', ',', ' '));
}

Json any_value(int depth) {
  switch (*rc::gen::inRange(0, depth == 0 ? 6 : 8)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::oneOf(rc::gen::arbitrary<std::int64_t>(),
                             rc::gen::element<std::int64_t>(INT64_MIN, INT64_MAX, 0, -1));
    case 3:
      return *rc::gen::oneOf(rc::gen::arbitrary<std::uint64_t>(),
                             rc::gen::element<std::uint64_t>(UINT64_MAX, INT64_MAX + 1ULL));
    case 4:
      return *rc::gen::element(0.5, -0.0, 1e300, 5e-324, 2.2250738585072014e-308, 1e-7, 123456.75);
    case 5:
      return any_text();
    case 6: {
      Json out = Json::array();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) out.push_back(any_value(depth - 1));
      return out;
    }
    default: {
      Json out = Json::object();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) out[any_text()] = any_value(depth - 1);
      return out;
    }
  }
}

TEST(JsonDocuments, HaveTheValuesOfTheText) {
  for_all(1000, [] {
    const Json value = any_value(4);
    const std::string text = value.dump(*rc::gen::element(-1, 1), ' ', *rc::gen::arbitrary<bool>());
    const JsonDocument document(text);
    expect_same(document.root(), Json::parse(text));
  });
}

/// Of these not every value has a place of its own; one list in it, and each has.
TEST(JsonDocuments, LongListsOfScalars) {
  for_all(300, [] {
    Json value = Json::array();
    for (int i = *rc::gen::inRange(0, 70); i > 0; --i) value.push_back(any_value(0));
    if (*rc::gen::inRange(0, 4) == 0) value.push_back(Json::array({1}));
    const std::string text = value.dump(*rc::gen::element(-1, 1), ' ', *rc::gen::arbitrary<bool>());
    const JsonDocument document(text);
    expect_same(document.root(), Json::parse(text));
  });
}

TEST(JsonDocuments, AreThoseTextsThatAreJson) {
  const std::string file =
      R"({"a": [1, -2.5e3, "x\u00e9\ud83d\ude00\n\"", true, null, {}], "b\/": {"c": [[]]}, "d": 0})";
  int refused = 0;
  for_all(4000, [&] {
    const std::string text = *damaged(file);
    const bool right = Json::accept(text);
    try {
      const JsonDocument document(text);
      RC_ASSERT(right);
      Json other = Json::parse(text);
      RC_ASSERT(document.root().size() >= other.size());  // a key may come twice
      document.root().source();
    } catch (const NotJson&) {
      RC_ASSERT(!right);
      ++refused;
    }
  });
  EXPECT_GT(refused, 500);
}

TEST(JsonDocuments, SayWhatIsWrong) {
  const auto fault = [](const std::string& text) {
    try {
      const JsonDocument document(text);
    } catch (const NotJson& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(fault("[1,"), "not JSON after byte 4");
  EXPECT_EQ(fault("[1,}"), "not JSON at byte 4");
  EXPECT_EQ(fault("[1e999]"), "contains a number outside the range of a double");
  EXPECT_EQ(fault(std::string(1001, '[')), "is nested more than 1,000 deep");
  EXPECT_EQ(fault("\xef\xbb\xbf [\"after a byte order mark\"]"), "");
}

}  // namespace
}  // namespace tidemark
