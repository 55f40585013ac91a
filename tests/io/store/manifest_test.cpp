// SPDX-License-Identifier: Apache-2.0
#include "store/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../../support/manifest_seal.h"
#include "../../support/random_manifest.h"

namespace castor::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

/// The layout once more, written plainly; it takes any manifest, also one that is not well formed.
Bytes write_plainly(const Manifest& manifest) {
  Bytes bytes;
  const auto add = [&](std::uint64_t value) {
    bytes.resize(bytes.size() + 8);
    put_word(bytes, bytes.size() - 8, value);
  };
  add(0x664d726f74736143);  // CastorMf
  add(1 | (manifest.checksums ? std::uint64_t{1} << 32 : 0));
  add(0);  // the length
  for (const auto word : {manifest.step, manifest.store_id, manifest.block_bytes}) add(word);
  add(manifest.volumes.size());
  add(manifest.values.size());
  for (const auto& volume : manifest.volumes) {
    for (const auto word : {volume.id, volume.end_bytes, std::uint64_t{volume.file_name.size()}}) add(word);
    for (const char c : volume.file_name) bytes.push_back(static_cast<std::byte>(c));
  }
  for (const auto& value : manifest.values) {
    add(value.key);
    add(value.n_bytes);
    for (const auto& extent : value.extents) add(extent.offset_bytes), add(extent.n_bytes);
    add(value.checksums.size());
    for (const auto sum : value.checksums) add(sum);
  }
  add(0);  // the checksum
  reseal_manifest(bytes);
  return bytes;
}

/// Three values in two volumes in blocks of two pages: 20000 bytes are 8192 + 8192 + 3616 (a page), 12300 are
/// 8192 + 4096 + 12 (two pages), 0 take a page.
Manifest three_values() {
  Manifest manifest{7, 8, 8192, true, {{"a", 1, 24576}, {"bb", 2, 20480}}, {}};
  manifest.values = {{3, 20000, {{0, 12288}, {4096, 8192}}, {10, 11, 12}},
                     {7, 0, {{12288, 4096}, {0, 0}}, {}},
                     {9, 12300, {{16384, 8192}, {12288, 8192}}, {13, 14, 15}}};
  return manifest;
}

void expect_equal(const Manifest& left, const Manifest& right) { EXPECT_EQ(write_plainly(left), write_plainly(right)); }

/// The error for `bytes`, after a look at its shape: kind, path in front, advice behind.
std::string complaint(const Bytes& bytes) {
  const auto decoded = decode_manifest(bytes, "/nvme/manifest");
  if (decoded.ok()) return "no error";
  EXPECT_EQ(decoded.error().kind, ErrorKind::io);
  const auto& message = decoded.error().message;
  EXPECT_EQ(message.find("/nvme/manifest "), 0u) << message;
  EXPECT_NE(message.find("remove the files of its folder to start anew"), std::string::npos) << message;
  return message;
}

/// Expects that three_values() after `damage`, with the checksum made to fit, is refused with `words`, and that it is
/// not written either.
void expect_refused(const std::string& words, const std::function<void(Manifest&)>& damage) {
  Manifest manifest = three_values();
  damage(manifest);
  const auto message = complaint(write_plainly(manifest));
  EXPECT_NE(message.find("is damaged: " + words + "; restore"), std::string::npos) << message;
  EXPECT_THROW((void)encode_manifest(manifest), ContractViolation) << words;
}

/// The same for the eight bytes at `at` of the written form.
void expect_refused_word(const std::string& words, std::size_t at, std::uint64_t value) {
  auto bytes = write_plainly(three_values());
  put_word(bytes, at, value);
  reseal_manifest(bytes);
  const auto message = complaint(bytes);
  EXPECT_NE(message.find("is damaged: " + words + "; restore"), std::string::npos) << message;
}

TEST(Manifest, IsTheseBytes) {
  const Manifest manifest{
      7,    0x0123456789abcdef,    4096,
      true, {{"v0", 0xa1, 12288}}, {{5, 4097, {{4096, 8192}}, {0x1111111111111111, 0x2222222222222222}}}};
  const unsigned char golden[] = {
      'C',  'a',  's',  't',  'o',  'r',  'M',  'f',   // magic
      1,    0,    0,    0,    1,    0,    0,    0,     // version 1, with checksums
      154,  0,    0,    0,    0,    0,    0,    0,     // length: 64 + 26 + 56 + 8
      7,    0,    0,    0,    0,    0,    0,    0,     // step
      0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,  // store id
      0,    0x10, 0,    0,    0,    0,    0,    0,     // blocks of 4096 bytes
      1,    0,    0,    0,    0,    0,    0,    0,     // one volume
      1,    0,    0,    0,    0,    0,    0,    0,     // one value
      0xa1, 0,    0,    0,    0,    0,    0,    0,     // id of the volume
      0,    0x30, 0,    0,    0,    0,    0,    0,     // where it ends
      2,    0,    0,    0,    0,    0,    0,    0,     // length of its name
      'v',  '0',                                       //
      5,    0,    0,    0,    0,    0,    0,    0,     // key
      1,    0x10, 0,    0,    0,    0,    0,    0,     // its bytes: a page and one more
      0,    0x10, 0,    0,    0,    0,    0,    0,     // offset of its extent
      0,    0x20, 0,    0,    0,    0,    0,    0,     // bytes of its extent
      2,    0,    0,    0,    0,    0,    0,    0,     // two checksums
      0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,  //
      0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22,  //
      0x8c, 0x8f, 0xbc, 0x9c, 0x0b, 0xa4, 0xa5, 0xda,  // XXH3-64 of the 146 bytes before, from another program
  };
  const auto bytes = encode_manifest(manifest);
  ASSERT_EQ(bytes.size(), sizeof(golden));
  for (std::size_t i = 0; i < sizeof(golden); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), golden[i]) << "byte " << i;
  const auto decoded = decode_manifest(std::as_bytes(std::span(golden)), "golden");
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  expect_equal(*decoded, manifest);
}

TEST(Manifest, ComesBackAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto manifest = RandomManifest::make(seed);
    const auto bytes = encode_manifest(manifest);
    ASSERT_EQ(bytes, write_plainly(manifest));
    const auto decoded = decode_manifest(bytes, "x");
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    expect_equal(*decoded, manifest);
  }
}

TEST(Manifest, BlocksAreWholeOnesThenPagesThenTheRestOfAPage) {
  EXPECT_EQ(n_value_blocks(0, 8192), 0u);
  EXPECT_EQ(n_value_blocks(1, 8192), 1u);
  EXPECT_EQ(n_value_blocks(4096, 8192), 1u);
  EXPECT_EQ(n_value_blocks(4097, 8192), 2u);
  EXPECT_EQ(n_value_blocks(8192, 8192), 1u);
  EXPECT_EQ(n_value_blocks(12300, 8192), 3u);
  EXPECT_EQ(n_value_blocks(12300, 4096), 4u);
  EXPECT_EQ(n_value_blocks(12300, 16384), 2u);
}

TEST(Manifest, EveryByteThatChangesIsNoticed) {
  const auto bytes = encode_manifest(three_values());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned change : {0x01u, 0x80u, 0xffu}) {
      auto damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(change);
      EXPECT_NE(complaint(damaged), "no error") << "byte " << i;
    }
  }
}

TEST(Manifest, EveryLengthButItsOwnIsNoticed) {
  auto bytes = encode_manifest(three_values());
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(complaint({bytes.data(), bytes.data() + n}), "no error");
  bytes.push_back(std::byte{0});
  EXPECT_NE(complaint(bytes), "no error");
}

TEST(Manifest, CutOffBehindEveryByteAndSealedAgainItIsNoticed) {
  const auto bytes = encode_manifest(three_values());
  for (std::size_t n = 72; n < bytes.size(); ++n) {
    Bytes damaged(bytes.data(), bytes.data() + n);
    reseal_manifest(damaged);
    EXPECT_NE(complaint(damaged), "no error") << n << " bytes";
  }
}

TEST(Manifest, WhatChangesAndIsSealedAgainIsRefusedOrWellFormed) {
  std::mt19937_64 random(1);
  std::uint64_t n_well_formed = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = encode_manifest(RandomManifest::make(random() % 50));
    for (auto n = 1 + random() % 3; n > 0; --n) bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 9);
    reseal_manifest(bytes);
    const auto decoded = decode_manifest(bytes, "x");
    if (!decoded.ok()) continue;
    ++n_well_formed;
    ASSERT_EQ(encode_manifest(*decoded), bytes) << "round " << round;
  }
  EXPECT_GT(n_well_formed, 1000u);  // steps, ids, names and checksums may be anything
}

TEST(Manifest, WhatIsNoneIsSaid) {
  EXPECT_EQ(
      complaint({}),
      "/nvme/manifest is no manifest of a tensor store: it has 0 bytes, the shortest has 72; restore a copy of the "
      "store's files, or remove the files of its folder to start anew");
  EXPECT_NE(complaint(Bytes(100)).find("its first 8 bytes are not CastorMf"), std::string::npos);
}

TEST(Manifest, OfANewerFormatIsLeftToANewerCastor) {
  auto bytes = encode_manifest(three_values());
  bytes[8] = std::byte{2};
  EXPECT_EQ(
      complaint(bytes),
      "/nvme/manifest was written by a newer Castor: its format is 2, this one reads 1; open it with that Castor, or "
      "remove the files of its folder to start anew");
  bytes[8] = std::byte{0};
  EXPECT_NE(complaint(bytes).find("its format is 0, and the first one was 1"), std::string::npos);
}

TEST(Manifest, LengthAndChecksumAreNamed) {
  auto bytes = encode_manifest(three_values());  // 339 bytes: see the offsets below
  bytes.pop_back();
  EXPECT_NE(complaint(bytes).find("is damaged: it has 338 bytes and says 339; restore"), std::string::npos);
  bytes = encode_manifest(three_values());
  bytes[24] = std::byte{9};
  EXPECT_NE(complaint(bytes).find("is damaged: its checksum is "), std::string::npos);
}

TEST(Manifest, CountsAreHeldAgainstTheBytesLeft) {
  // The header ends at 64, the volumes at 89 and 115, the values at 195, 251 and 331, where the checksum begins.
  expect_refused_word("its flags are 3, and 1 is the only one", 8, 1 | std::uint64_t{3} << 32);
  expect_refused_word("it counts 18446744073709551615 volumes, and 267 bytes are left for them", 48, kNoEnd);
  expect_refused_word("it counts 12 volumes, and 267 bytes are left for them", 48, 12);
  expect_refused_word("it counts 244 bytes of a file name, and 243 bytes are left for them", 80, 244);
  expect_refused_word("it counts 18446744073709551615 values, and 216 bytes are left for them", 56, kNoEnd);
  expect_refused_word("it counts 4 values, and 216 bytes are left for them", 56, 4);
  expect_refused_word("80 bytes follow its last value", 56, 2);
  expect_refused_word("it counts 18446744073709551615 checksums, and 160 bytes are left for them", 163, kNoEnd);
  expect_refused_word("it counts 21 checksums, and 160 bytes are left for them", 163, 21);
  expect_refused_word("its value 2 is cut off after 0 bytes", 163, 4);
  expect_refused_word("its volume 1 is cut off after 10 bytes", 80, 233);
}

TEST(Manifest, BlocksAreAPowerOfTwo) {
  const auto blocks_of = [](std::uint64_t n) { return [n](Manifest& manifest) { manifest.block_bytes = n; }; };
  for (const std::uint64_t wrong : {0ull, 1ull, 2048ull, 12288ull, 2ull << 30, 1ull << 63})
    expect_refused(
        "its blocks are of " + std::to_string(wrong) + " bytes, which is no power of two from 4096 to 1073741824",
        blocks_of(wrong));
  for (const std::uint64_t n : {std::uint64_t{4096}, std::uint64_t{1} << 30})
    EXPECT_TRUE(decode_manifest(encode_manifest({1, 2, n, true, {{"a", 1, 0}}, {}}), "x").ok()) << n;
}

TEST(Manifest, FileNamesStayInTheirFolder) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"", "is empty"},
                                                                  {".", "is that of a folder"},
                                                                  {"..", "is that of a folder"},
                                                                  {"a/b", "has a slash"},
                                                                  {"/a", "has a slash"},
                                                                  {std::string("a\0b", 3), "has a zero byte"},
                                                                  {std::string(256, 'a'), "is longer than 255 bytes"}};
  for (const auto& [name, fault] : wrong)
    expect_refused("the file name of its volume 1 " + fault,
                   [&, name = name](Manifest& manifest) { manifest.volumes[1].file_name = name; });
  for (const std::string& name : {std::string(255, 'a'), std::string("..."), std::string(".a")}) {
    auto manifest = three_values();
    manifest.volumes[1].file_name = name;
    EXPECT_EQ(complaint(encode_manifest(manifest)), "no error") << name;
  }
}

TEST(Manifest, VolumesAreThereAndDiffer) {
  expect_refused("it names no volume", [](Manifest& manifest) { manifest.volumes.clear(), manifest.values.clear(); });
  expect_refused("two of its volumes have the id 1", [](Manifest& manifest) { manifest.volumes[1].id = 1; });
  expect_refused("its volume 1 ends at 20481, which is no multiple of 4096 up to 9223372036854771712",
                 [](Manifest& manifest) { manifest.volumes[1].end_bytes = 20481; });
  expect_refused("its volume 0 ends at 9223372036854775808, which is no multiple of 4096 up to 9223372036854771712",
                 [](Manifest& manifest) { manifest.volumes[0].end_bytes = 1ull << 63; });
}

TEST(Manifest, KeysAscend) {
  expect_refused("its key 9 comes after key 9", [](Manifest& manifest) { manifest.values[1].key = 9; });
  expect_refused("its key 2 comes after key 3", [](Manifest& manifest) { manifest.values[1].key = 2; });
}

TEST(Manifest, ExtentsArePagesInsideTheirVolume) {
  expect_refused("key 9 has 8192 bytes at offset 16385 of volume 0, which are no multiples of 4096",
                 [](Manifest& manifest) { manifest.values[2].extents[0].offset_bytes = 16385; });
  expect_refused("key 9 has 8191 bytes at offset 16384 of volume 0, which are no multiples of 4096",
                 [](Manifest& manifest) { manifest.values[2].extents[0].n_bytes = 8191; });
  expect_refused("key 9 has 8192 bytes at offset 16384 of volume 1, which ends at 20480",
                 [](Manifest& manifest) { manifest.values[2].extents[1].offset_bytes = 16384; });
  expect_refused("key 9 has 8192 bytes at offset 18446744073709547520 of volume 1, which ends at 20480",
                 [](Manifest& manifest) { manifest.values[2].extents[1].offset_bytes = kNoEnd - 4095; });
  expect_refused("key 7 has 0 bytes at offset 24576 of volume 1, which ends at 20480",
                 [](Manifest& manifest) { manifest.values[1].extents[1].offset_bytes = 24576; });
}

TEST(Manifest, ExtentsAreWhatTheirValueNeeds) {
  expect_refused("key 3 has 16384 of the 20480 bytes that its 20000 need",
                 [](Manifest& manifest) { manifest.values[0].extents[0].n_bytes = 8192; });
  expect_refused("key 3 has more than the 20480 bytes that its 20000 need",
                 [](Manifest& manifest) { manifest.values[0].extents[0].n_bytes = 16384; });
  expect_refused("key 7 has 0 of the 4096 bytes that its 0 need",
                 [](Manifest& manifest) { manifest.values[1].extents[0].n_bytes = 0; });
  expect_refused("key 7 has 4096 of the 8192 bytes that its 4097 need",
                 [](Manifest& manifest) { manifest.values[1].n_bytes = 4097; });
  for (const std::uint64_t n : {kNoEnd, std::uint64_t{1} << 63})
    expect_refused("key 7 has " + std::to_string(n) + " bytes, more than the 9223372036854771712 that a store can hold",
                   [n](Manifest& manifest) { manifest.values[1].n_bytes = n; });
}

TEST(Manifest, OnlyTheLastUnitOfAValueIsCut) {
  expect_refused("key 9 has a part of a block of 8192 bytes in 2 volumes, where one may", [](Manifest& manifest) {
    manifest.values[2].extents = {{16384, 4096}, {4096, 12288}};
    manifest.values[0] = {3, 0, {{0, 4096}, {0, 0}}, {}};
  });
}

TEST(Manifest, ExtentsOfAVolumeDoNotOverlap) {
  expect_refused("key 3 and key 7 overlap in volume 0: 12288 bytes at offset 0 and 4096 bytes at offset 8192",
                 [](Manifest& manifest) { manifest.values[1].extents[0].offset_bytes = 8192; });
  expect_refused("key 3 and key 9 overlap in volume 1: 8192 bytes at offset 4096 and 8192 bytes at offset 8192",
                 [](Manifest& manifest) { manifest.values[2].extents[1].offset_bytes = 8192; });
}

TEST(Manifest, ChecksumsAreOneForEachBlock) {
  expect_refused("key 3 has 2 checksums, its 20000 bytes have 3",
                 [](Manifest& manifest) { manifest.values[0].checksums.pop_back(); });
  expect_refused("key 7 has 1 checksums, its 0 bytes have 0",
                 [](Manifest& manifest) { manifest.values[1].checksums.push_back(1); });
  expect_refused("key 3 has 3 checksums in a store without them, its 20000 bytes have 0",
                 [](Manifest& manifest) { manifest.checksums = false; });
}

TEST(Manifest, AnExtentPerVolumeIsOwedByItsWriter) {
  auto manifest = three_values();
  manifest.values[2].extents.pop_back();
  EXPECT_THROW((void)encode_manifest(manifest), ContractViolation);
}

}  // namespace
}  // namespace castor::test
