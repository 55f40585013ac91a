// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/result.h>

#include <gtest/gtest.h>

#include <memory>

namespace castor {
namespace {

const Error kFull{ErrorKind::does_not_fit, "full"};

Result<int> half(int n) {
  if (n % 2) return Error{ErrorKind::usage, "odd"};
  return n / 2;
}
Result<void> check(bool good) { return good ? Result<void>() : kFull; }

Result<int> quarter(int n) {
  CASTOR_ASSIGN(const int once, half(n));
  CASTOR_ASSIGN(const int twice, half(once));
  return twice;
}
Result<int> guarded(bool good, int& n_steps) {
  ++n_steps;
  CASTOR_TRY(check(good));
  ++n_steps;
  return 7;
}
Result<std::unique_ptr<int>> boxed() {
  CASTOR_ASSIGN(auto n, half(8));
  return std::make_unique<int>(n);
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(half(8).value(), 4);
  EXPECT_EQ(*half(8), 4);
  EXPECT_FALSE(half(7).ok());
  EXPECT_EQ(half(7).error().message, "odd");
}

TEST(Result, AssignHandsTheFirstErrorOn) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
}

TEST(Result, TryReturnsAtTheError) {
  int n_steps = 0;
  EXPECT_EQ(guarded(true, n_steps).value(), 7);
  EXPECT_EQ(n_steps, 2);
  EXPECT_EQ(guarded(false, n_steps).error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(n_steps, 3);
}

TEST(Result, CarriesWhatCanOnlyMove) {
  auto box = std::move(boxed()).value();
  EXPECT_EQ(*box, 4);
}

TEST(Result, TheValueOfAnErrorThrowsItWithItsKind) {
  try {
    (void)half(7).value();
    FAIL() << "no exception";
  } catch (const ErrorException& thrown) {
    EXPECT_EQ(thrown.error().kind, ErrorKind::usage);
    EXPECT_STREQ(thrown.what(), "odd");
  }
  EXPECT_THROW(check(false).value(), ErrorException);
  EXPECT_NO_THROW(check(true).value());
}

TEST(Result, TheErrorOfASuccessIsABrokenContract) {
  EXPECT_THROW((void)half(8).error(), ContractViolation);
  EXPECT_THROW((void)check(true).error(), ContractViolation);
}

}  // namespace
}  // namespace castor
