#include "base/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace fermata {
namespace {

struct Anything {
  std::string name;
  double rate = 0;
  int64_t count = 0;
  bool fast = false;
  size_t mode = 0;
  std::vector<double> points;
  std::vector<std::pair<std::string, double>> shares;
};

Anything read_anything(Reader root) {
  ObjectReader fields = root.object();
  Anything a;
  a.name = fields["name"].string();
  a.rate = fields["rate"].non_negative();
  a.count = fields["count"].integer(1, 64, 8);
  a.fast = fields["fast"].boolean(false);
  a.mode = fields["mode"].choice({"slow", "quick"}, 0);
  for (Reader point : fields["points"].optional_list()) a.points.push_back(point.positive());
  if (fields["shares"].present()) {
    for (const auto& [name, share] : fields["shares"].map()) {
      a.shares.emplace_back(name, share.between(0, 1));
    }
  }
  return a;
}

absl::StatusOr<Anything> parsed(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_anything);
}

std::string error_of(std::string_view text) {
  const auto result = parsed(text);
  return result.ok() ? "no error" : std::string(message(result.status()));
}

TEST(Document, ReadsJson) {
  const auto a = parsed(R"({"name": "m", "rate": 1.5, "count": 3, "fast": true, "mode": "quick",
                            "points": [1, 2.5], "shares": {"z": 0.25, "a": 0.75}})");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->name, "m");
  EXPECT_EQ(a->rate, 1.5);
  EXPECT_EQ(a->count, 3);
  EXPECT_TRUE(a->fast);
  EXPECT_EQ(a->mode, 1u);
  EXPECT_EQ(a->points, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(a->shares[0].first, "z");  // the order of the text
}

TEST(Document, ReadsTheSameFromYaml) {
  const auto a = parsed("name: m\nrate: 1.5\ncount: 0x10\nfast: True\npoints: [1, .5, 1e2]\n");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->count, 16);
  EXPECT_EQ(a->points, (std::vector<double>{1, 0.5, 100}));
}

TEST(Document, FallbacksStandForMissingFieldsOnly) {
  EXPECT_EQ(parsed(R"({"name": "m", "rate": 0})")->count, 8);
  EXPECT_EQ(error_of(R"({"name": "m", "rate": 0, "count": null})"),
            "$.count: null, expected a whole number from 1 to 64");
}

TEST(Document, NamesPathValueAndExpectation) {
  struct Case {
    std::string text, error;
  };
  const Case cases[] = {
      {R"({"name": "m"})", "$.rate: missing, expected a non-negative number"},
      {R"({"name": "m", "rate": -1})", "$.rate: -1, expected a non-negative number"},
      {R"({"name": "", "rate": 1})", "$.name: \"\", expected a non-empty string"},
      {R"({"name": 3, "rate": 1})", "$.name: 3, expected a non-empty string"},
      {R"({"name": "m", "rate": [1]})", "$.rate: a list of 1, expected a non-negative number"},
      {R"({"name": "m", "rate": 1, "count": 2.5})",
       "$.count: 2.5, expected a whole number from 1 to 64"},
      {R"({"name": "m", "rate": 1, "count": 65})",
       "$.count: 65, expected a whole number from 1 to 64"},
      {R"({"name": "m", "rate": 1, "count": 18446744073709551615})",
       "$.count: 18446744073709551615, expected a whole number from 1 to 64"},
      {R"({"name": "m", "rate": 1, "fast": "yes"})", "$.fast: \"yes\", expected true or false"},
      {R"({"name": "m", "rate": 1, "mode": "fast"})",
       "$.mode: \"fast\", expected one of slow, quick"},
      {R"({"name": "m", "rate": 1, "points": [1, 0]})",
       "$.points[1]: 0, expected a positive number"},
      {R"({"name": "m", "rate": 1, "points": {}})", "$.points: a map, expected a list"},
      {R"({"name": "m", "rate": 1, "shares": {"a.b": 2}})",
       "$.shares[\"a.b\"]: 2, expected a number from 0 to 1"},
      {R"({"name": "m", "rate": 1, "shares": {"": 1}})",
       "$.shares[\"\"]: 1, expected a name that is not empty before it"},
      {R"({"name": "m", "rate": 1, "rates": 2})",
       "$.rates: 2, expected no such field, but name, rate, count, fast, mode, points, shares; did "
       "you mean rate?"},
      {"[]", "$: a list of 0, expected a map"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(c.text), c.error);
}

std::vector<std::string> errors_of(std::string_view text) {
  auto document = Document::parse(text);
  (void)document->read(read_anything);
  return document->errors();
}

TEST(Document, NamesEveryUnknownFieldWithItsLineAndWhatWasProbablyMeant) {
  const auto errors =
      errors_of("name: m\n# a note\nrate: 1\nmoed: slow\npoints:\n- 1\nbanana: 2\n");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(errors[0], testing::StartsWith("$.moed: \"slow\" (line 4), expected no such field"));
  EXPECT_THAT(errors[0], testing::EndsWith("did you mean mode?"));
  EXPECT_THAT(errors[1], testing::StartsWith("$.banana: 2 (line 7)"));
  EXPECT_THAT(errors[1], testing::EndsWith("shares"));
  const auto map = errors_of("name: m\nrate: 1\n\nbanana:\n  # a note\n  ripe: 2\napple: 3\n");
  ASSERT_EQ(map.size(), 2u);
  EXPECT_THAT(map[0], testing::StartsWith("$.banana: a map (line 4)"));
  EXPECT_THAT(map[1], testing::StartsWith("$.apple: 3 (line 7)"));
}

TEST(Document, KnowsAllThatGettersFoundInTheOrderInWhichTheyWereAsked) {
  EXPECT_EQ(errors_of(R"({"rate": -1, "name": 3, "points": [1, 0, "x"], "odd": 1})"),
            (std::vector<std::string>{"$.name: 3, expected a non-empty string",
                                      "$.rate: -1, expected a non-negative number",
                                      "$.points[1]: 0, expected a positive number",
                                      "$.points[2]: \"x\", expected a positive number"}));
  EXPECT_EQ(errors_of("[]"), std::vector<std::string>{"$: a list of 0, expected a map"});
  EXPECT_EQ(errors_of(R"({"name": "m", "rate": 1})").size(), 0u);
  std::string many = "name: m\nrate: 1\npoints: [0";
  for (int i = 0; i < 100; ++i) many += ", -1";
  EXPECT_EQ(errors_of(many + "]").size(), 20u);
}

TEST(Document, KnowsTwentyErrorsOfAllKindsAtMost) {
  std::string text = "rates: [0";
  for (int i = 0; i < 30; ++i) text += ", -1";
  text += "]\ninner:\n";
  for (int i = 0; i < 30; ++i) text += "  odd" + std::to_string(i) + ": 1\n";
  auto document = Document::parse(text);
  ASSERT_TRUE(document.ok()) << document.status();
  const auto read = document->read([](Reader root) {
    ObjectReader fields = root.object();
    fields["inner"].object();
    for (Reader rate : fields["rates"].optional_list()) rate.positive();
    return 0;
  });
  EXPECT_FALSE(read.ok());
  EXPECT_EQ(document->errors().size(), 20u);
}

TEST(Document, NumbersThatStandAsNamesArePlain) {
  EXPECT_EQ(number_of("0"), 0u);
  EXPECT_EQ(number_of("4294967295"), 4294967295u);
  for (const char* text : {"", "01", " 1", "+1", "-1", "1.0", "1 ", "4294967296", "x"}) {
    EXPECT_EQ(number_of(text), std::nullopt) << text;
  }
}

TEST(Document, NamesAreNotBlankAndHaveNoControlCharacters) {
  for (const char* text : {"a", " a b ", "größe"}) EXPECT_TRUE(is_name(text)) << text;
  for (const char* text : {"", "  ", "a\nb", "\x7f"}) EXPECT_FALSE(is_name(text)) << text;
}

TEST(Document, NamesGivenTwiceAreErrors) {
  EXPECT_EQ(error_of(R"({"name": "m", "rate": 1, "rate": 2})"),
            "$.rate: given twice, expected each name once");
  EXPECT_EQ(error_of("name: m\nrate: 1\nshares:\n  a: 1\n  a: 1\n"),
            "$.shares.a: given twice, expected each name once");
}

TEST(Document, NumbersAreFinite) {
  for (const char* text : {R"({"rate": NaN})", R"({"rate": Infinity})", R"({"rate": 1e999})"}) {
    EXPECT_EQ(error_of(text).rfind("$: not JSON", 0), 0u) << error_of(text);
  }
  for (const char* value : {".nan", ".inf", "-.INF", "1e999"}) {
    EXPECT_EQ(error_of(fmt::format("rate: {}", value)),
              fmt::format("$.rate: {}, expected a finite number", value));
  }
}

TEST(Document, QuotedYamlScalarsAreStrings) {
  EXPECT_EQ(parsed("name: '12'\nrate: 1")->name, "12");
  EXPECT_EQ(error_of("name: m\nrate: '1'"), "$.rate: \"1\", expected a non-negative number");
  EXPECT_EQ(error_of("name: !tag m\nrate: 1"), "$.name: tag !tag, expected no tag");
}

TEST(Document, SyntaxErrorsAreOneLineWithAPosition) {
  for (const char* text : {"{\"name\": \"m\",\n}", "name: [1,\n", "\xff\xfe", "{\"a\": \"\n\"}", "",
                           "a: 1\n---\nb: 2\n", "? [a]\n: b", "*a", "&a [*a]", "&a : 1\nb: *a"}) {
    const std::string error = error_of(text);
    EXPECT_EQ(error.rfind("$", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), error.npos);
  }
  EXPECT_NE(error_of("{\"name\": \"m\",\n}").find("line 2, column 1"), std::string::npos);
}

TEST(Document, DepthIsLimited) {
  const std::string deep(100, '[');
  EXPECT_NE(error_of(deep).find("expected at most 64 levels"), std::string::npos);
  EXPECT_NE(error_of("a: " + deep + std::string(100, ']')).find("expected at most 64 levels"),
            std::string::npos);
  std::string hostile(100'000, '[');
  EXPECT_NE(error_of("a: " + hostile), "no error");
}

TEST(Document, AliasesCountAsOftenAsTheyStandThere) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{}: &a{} [", i, i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("{}*a{}", j ? ", " : "", i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(error_of(bomb).find("one value too many"), std::string::npos) << error_of(bomb);
  EXPECT_EQ(parsed("name: &n m\nrate: 1\npoints: &p [1]\n")->points.size(), 1u);
  EXPECT_EQ(parsed("rate: &r 2\nname: m\ncount: *r\n")->count, 2);
}

TEST(Document, FailRecordsTheFirstErrorOnly) {
  auto document = Document::parse("[1, 2]");
  const auto result = document->read([](Reader root) {
    for (Reader item : root.list(3)) item.fail("never reached");
    root.fail("a second");
    return 0;
  });
  EXPECT_EQ(message(result.status()), "$: a list of 2, expected a list of at least 3");
}

TEST(Document, MissingFilesSaySo) {
  const auto document = Document::load("no/such/file.json");
  EXPECT_EQ(message(document.status()),
            "no/such/file.json: cannot be opened (No such file or directory), expected a file");
}

TEST(Document, WritesInOrderAndReadsBackTheSameBits) {
  Json out;
  out["z"] = 0.1 + 0.2;
  out["a"] = {1, 2.0};
  const std::string text = write_json(out);
  EXPECT_EQ(text, "{\n  \"z\": 0.30000000000000004,\n  \"a\": [\n    1,\n    2.0\n  ]\n}\n");
  EXPECT_EQ(Json::parse(text)["z"].get<double>(), 0.1 + 0.2);
}

}  // namespace
}  // namespace fermata
