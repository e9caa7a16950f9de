// Tests that names are found as they were added, and listed as folders.
#include "store/name_index.h"

#include <gtest/gtest.h>

#include <string>

namespace headrace::store {
namespace {

std::string listed(const NameIndex& index, std::string_view prefix) {
  auto entries = index.list(prefix);
  if (!entries.ok()) return std::string(code_name(entries.status().code()));
  std::string text;
  for (const Entry& entry : *entries) text += entry.name + (entry.is_directory ? "/ " : " ");
  return text;
}

TEST(NameIndex, FindsWhatWasAdded) {
  NameIndex index;
  EXPECT_EQ(index.find("a"), NameIndex::kNone);
  bool is_new = false;
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    ASSERT_EQ(index.add("c/" + std::to_string(i) + "/" + std::string(i % 40, 'x'), is_new), i);
    ASSERT_TRUE(is_new);
  }
  EXPECT_EQ(index.add("c/7/xxxxxxx", is_new), 7u);
  EXPECT_FALSE(is_new);
  EXPECT_EQ(index.size(), 50'000u);
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    const std::string name = "c/" + std::to_string(i) + "/" + std::string(i % 40, 'x');
    ASSERT_EQ(index.find(name), i);
    ASSERT_EQ(index.name(i), name);
    ASSERT_EQ(index.find(name + "y"), NameIndex::kNone);
  }
}

TEST(NameIndex, ListsFolders) {
  NameIndex index;
  bool is_new = false;
  EXPECT_EQ(listed(NameIndex(), ""), "");
  for (const char* name : {"g/b/1", "g/b/2", "g/a", "g/c/x/y", "top", "g/b.c", "g/b-", "empty/", "both", "both/x"}) {
    index.add(name, is_new);
  }
  EXPECT_EQ(listed(index, ""), "both/ empty/ g/ top ");
  EXPECT_EQ(listed(index, "g"), "a b/ b- b.c c/ ");
  EXPECT_EQ(listed(index, "g/c"), "x/ ");
  EXPECT_EQ(listed(index, "empty"), "");
  EXPECT_EQ(listed(index, "top"), "not found");
  EXPECT_EQ(listed(index, "no"), "not found");
}

}  // namespace
}  // namespace headrace::store
