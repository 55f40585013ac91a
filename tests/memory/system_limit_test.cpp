// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/system_limit.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace castor {
namespace {

TEST(LimitError, NamesWhatRanOutAndTheLimitToRaise) {
  rlimit before = {}, small = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  small = before, small.rlim_cur = 123;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto files = limit_error(EMFILE);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(files->message,
            "this process may open no more files: Too many open files; raise the limit on open files (ulimit -n, now "
            "123)");
  EXPECT_EQ(files->kind, ErrorKind::failed);
  EXPECT_NE(limit_error(EAGAIN)->message.find("ulimit -u"), std::string::npos);
  EXPECT_NE(limit_error(ENOMEM)->message.find("ulimit -v"), std::string::npos);
  EXPECT_EQ(limit_error(ENOMEM)->kind, ErrorKind::does_not_fit);
}

TEST(LimitError, OtherNumbersAreNoLimits) {
  for (const int number : {0, ENOENT, EIO, EACCES}) EXPECT_FALSE(limit_error(number).has_value());
}

TEST(SpareFiles, AreMissedBeforeTheyAreNeeded) {
  EXPECT_TRUE(check_spare_files(8).ok());
  rlimit before = {}, small = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY);
  ASSERT_EQ(::close(next), 0);
  small = before, small.rlim_cur = static_cast<rlim_t>(next) + 4;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto too_many = check_spare_files(8), one = check_spare_files(1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(too_many.ok());
  EXPECT_NE(too_many.error().message.find("ulimit -n, now " + std::to_string(next + 4)), std::string::npos);
  EXPECT_TRUE(one.ok()) << "those that were opened are closed";
}

}  // namespace
}  // namespace castor
