// SPDX-License-Identifier: Apache-2.0
#include "train/words.h"

#include <gtest/gtest.h>

namespace castor::train {
namespace {

std::string text_of(const std::string& message) { return worded(Error{ErrorKind::usage, message}).message; }

TEST(Worded, ThingsBecomeTheOptionsThatNameThem) {
  EXPECT_EQ(text_of("the checkpoint folder /a,/b: there is no checkpoint in that folder"),
            "--resume /a,/b: there is no checkpoint in that folder");
  EXPECT_EQ(text_of("the checkpoint folder a: it holds the moments of sgd, optimizer adamw continues from others"),
            "--resume a: it holds the moments of sgd, --optimizer adamw continues from others");
  EXPECT_EQ(text_of("parameter group *.bais: selects none of the 6 parameters"),
            "--group *.bais: selects none of the 6 parameters");
  EXPECT_EQ(text_of("a holds a run of 2 steps already; resume from it, or name another folder"),
            "a holds a run of 2 steps already; continue it with --resume, or name another folder");
  EXPECT_EQ(text_of("no GPU for LibTorch; build Castor against a CUDA build of torch, or train on the CPU"),
            "no GPU for LibTorch; build Castor against a CUDA build of torch, or use --device cpu");
}

TEST(Worded, OtherMessagesAndTheKindStay) {
  const Error error = worded(Error{ErrorKind::io, "a drive failed, as in the parameter group of drives"});
  EXPECT_EQ(error.message, "a drive failed, as in the parameter group of drives");
  EXPECT_EQ(error.kind, ErrorKind::io);
}

}  // namespace
}  // namespace castor::train
