#include "harness/virtual/device/json_string.h"

#include <random>

namespace tidemark::device {
namespace {

using nlohmann::json;

TEST(JsonString, GivesTextBack) {
  for (const std::string& text : {std::string(), std::string("a \"quoted\" \\ path\n\t\0end", 24),
                                  std::string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a"),
                                  std::string("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\x7f")})
    EXPECT_EQ(json::parse(json_string(text)).get<std::string>(), text);
}

TEST(JsonString, ReplacesWhatIsNoCharacter) {
  for (const char* text : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                           "\xc3", "\xe2\x82", "\x80"}) {
    const auto read = json::parse(json_string(std::string("a") + text + "b")).get<std::string>();
    EXPECT_TRUE(read.starts_with("a\xef\xbf\xbd") && read.ends_with("\xef\xbf\xbd"
                                                                    "b"))
        << read;
  }
}

TEST(JsonString, AnyBytesAreReadAsALibraryReadsWhatItWrites) {
  std::mt19937 random(std::random_device{}());
  const std::string of_interest = "\"\\\n\x7f\x80\xa0\xbf\xc2\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 9, '\0');
    for (char& c : text)
      c = random() % 2 ? static_cast<char>(random()) : of_interest[random() % of_interest.size()];
    const auto read = json::parse(json_string(text)).get<std::string>();
    bool is_text = true;
    try {
      is_text = json::parse(json(text).dump()) == text;
    } catch (const json::type_error&) {
      is_text = false;
    }
    EXPECT_EQ(read == text, is_text)
        << json(text).dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

TEST(JsonList, OfNoneOneAndTwo) {
  EXPECT_EQ(json_list({}), "[]");
  EXPECT_EQ(json_list({"1"}), "[1]");
  EXPECT_EQ(json_list({json_string("a"), "2"}), R"(["a",2])");
}

}  // namespace
}  // namespace tidemark::device
