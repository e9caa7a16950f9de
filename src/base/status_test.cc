// Status and Result: what the header promises.
#include <gtest/gtest.h>
#include <headrace/status.h>

#include <memory>

namespace headrace {
namespace {

Status lost() {
  return Status(Code::kIo, Layer::kIo, "read failed").with_key("a/0.0").with_range(4096, 17).with_errno(5);
}

TEST(Status, TextHasEveryFieldInOneLine) {
  const std::string text = lost().to_string();
  for (const char* part : {"io", "read failed", "a/0.0", "4096", "17", "Input/output error"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(Status().to_string(), "ok");
}

TEST(Status, FieldsThatAreSetStay) {
  const Status status = lost().with_key("b").with_range(1, 2).with_cause("another").with_errno(2);
  EXPECT_EQ(status.key(), "a/0.0");
  EXPECT_EQ(status.offset(), 4096u);
  EXPECT_EQ(status.length(), 17u);
  EXPECT_EQ(status.cause(), "Input/output error");
  EXPECT_EQ(status.system_error(), 5);
}

TEST(Status, CopiesDoNotShareWhatIsAddedLater) {
  const Status first(Code::kCorrupt, Layer::kCodec, "damaged");
  const Status second = Status(first).with_key("key");
  EXPECT_EQ(first.key(), "");
  EXPECT_EQ(second.key(), "key");
  EXPECT_EQ(second.message(), "damaged");
}

TEST(Status, OutOfMemoryTakesNoContextAndIsShared) {
  const Status status = Status::out_of_memory().with_key("key");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.key(), "");
  EXPECT_EQ(Status::out_of_memory().message(), "out of memory");
}

TEST(Result, OfAnOkStatusIsAFailure) {
  const Result<int> result{Status()};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

TEST(Result, ValueMovesOutOfATemporary) {
  EXPECT_EQ(*Result<std::unique_ptr<int>>(std::make_unique<int>(7)).value(), 7);
}

TEST(Result, ValueOfAFailureThrowsItsStatus) {
  Result<int> result = lost();
  const Result<int>& constant = result;
  EXPECT_THROW((void)result.value(), BadResultAccess);
  EXPECT_THROW((void)constant.value(), BadResultAccess);
  try {
    (void)Result<int>(lost()).value();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const BadResultAccess& error) {
    EXPECT_EQ(error.status().key(), "a/0.0");
    EXPECT_NE(std::string_view(error.what()).find(lost().to_string()), std::string_view::npos) << error.what();
  }
}

}  // namespace
}  // namespace headrace
