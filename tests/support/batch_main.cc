// The main function of a program that contains several tests. Each test is a link to the program: started under a
// test's name, the program runs only the cases of that source file. Started under its own name, it runs all.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

// "file_queue_test" from a path to it or to file_queue_test.cc.
std::string_view stem(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  return path.substr(0, path.find('.'));
}

// A filter for the cases of a source file; suites that are entirely in it are named as a whole. Empty: no cases.
std::string cases_of(std::string_view source) {
  std::string filter;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    std::string some;
    int count = 0;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      if (stem(test.file()) != source) continue;
      some += std::string(suite.name()) + "." + test.name() + ":";
      ++count;
    }
    filter += count == suite.total_test_count() ? std::string(suite.name()) + ".*:" : some;
  }
  return filter;
}

// Cases defined in a header belong to no source file, so no link would run them.
bool all_are_found() {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string_view file = suite.GetTestInfo(j)->file();
      if (file.ends_with("_test.cc")) continue;
      std::fprintf(stderr,
                   "%s.%s stands in %s, not in a test's source: add ALONE to the headrace_test that includes it\n",
                   suite.name(), suite.GetTestInfo(j)->name(), suite.GetTestInfo(j)->file());
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!all_are_found()) return 1;
  const std::string_view name = stem(argv[0]);
  if (name != HEADRACE_TEST_PROGRAM && ::testing::GTEST_FLAG(filter) == "*") {
    ::testing::GTEST_FLAG(filter) = cases_of(name);
    if (::testing::GTEST_FLAG(filter).empty()) {
      std::fprintf(stderr, "no case of this program stands in %.*s.cc\n", static_cast<int>(name.size()), name.data());
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
