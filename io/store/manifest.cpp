// SPDX-License-Identifier: Apache-2.0
#include "manifest.h"

#include <utility>

#include <castor/memory/bytes.h>

#include "byte_reader.h"
#include "byte_writer.h"
#include "checksum.h"
#include "manifest_check.h"

namespace castor {
namespace {

constexpr std::string_view kMagic = "CastorMf";
constexpr std::uint32_t kWithChecksums = 1;
constexpr std::uint64_t kHeaderBytes = 64;
constexpr std::uint64_t kTotalOffset = 16;
constexpr std::uint64_t kSealBytes = 8;
constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kVolumeWords = 3;  // and the name
constexpr std::uint64_t kExtentWords = 2;
constexpr std::uint64_t kValueWords = 3;  // and the extents and checksums

std::uint64_t seal_of(std::span<const std::byte> bytes) {
  return checksum({const_cast<std::byte*>(bytes.data()), bytes.size()});  // only read
}

std::uint64_t encoded_bytes(const Manifest& manifest) {
  const auto extent_words = kExtentWords * manifest.volumes.size();
  std::uint64_t n_bytes = kHeaderBytes + kSealBytes;
  for (const auto& volume : manifest.volumes) n_bytes += kVolumeWords * kWordBytes + volume.file_name.size();
  for (const auto& value : manifest.values)
    n_bytes += (kValueWords + extent_words + value.checksums.size()) * kWordBytes;
  return n_bytes;
}

void add_header(ByteWriter& out, const Manifest& manifest, std::uint64_t total_bytes) {
  out.add(kMagic);
  out.add_half(kManifestVersion);
  out.add_half(manifest.checksums ? kWithChecksums : 0);
  for (const std::uint64_t word : {total_bytes, manifest.step, manifest.store_id, manifest.block_bytes,
                                   std::uint64_t{manifest.volumes.size()}, std::uint64_t{manifest.values.size()}})
    out.add_word(word);
}

void add_volume(ByteWriter& out, const ManifestVolume& volume) {
  out.add_word(volume.id);
  out.add_word(volume.end_bytes);
  out.add_word(volume.file_name.size());
  out.add(volume.file_name);
}

void add_value(ByteWriter& out, const ManifestValue& value) {
  out.add_word(value.key);
  out.add_word(value.n_bytes);
  for (const auto& extent : value.extents) {
    out.add_word(extent.offset_bytes);
    out.add_word(extent.n_bytes);
  }
  out.add_word(value.checksums.size());
  for (const auto sum : value.checksums) out.add_word(sum);
}

/// The error messages about one manifest.
class Complaint {
 public:
  explicit Complaint(std::string_view path) : path_(path) {}

  Error no_manifest(const std::string& why) const { return sentence(" is no manifest of a tensor store: " + why); }
  Error damaged(const std::string& how) const { return sentence(" is damaged: " + how); }
  Error cut_off(const std::string& what, std::uint64_t left_bytes) const {
    return damaged("its " + what + " is cut off after " + std::to_string(left_bytes) + " bytes");
  }
  Error too_many(std::uint64_t count, const char* things, std::uint64_t left_bytes) const {
    return damaged("it counts " + std::to_string(count) + " " + things + ", and " + std::to_string(left_bytes) +
                   " bytes are left for them");
  }
  Error newer(std::uint32_t version) const {
    return {ErrorKind::io, std::string(path_) + " was written by a newer Castor: its format is " +
                               std::to_string(version) + ", this one reads " + std::to_string(kManifestVersion) +
                               "; open it with that Castor, or remove the files of its folder to start anew"};
  }

 private:
  Error sentence(const std::string& what) const {
    return {ErrorKind::io,
            std::string(path_) + what +
                "; restore a copy of the store's files, or remove the files of its folder to start anew"};
  }
  std::string_view path_;
};

Result<void> check_magic(std::span<const std::byte> bytes, const Complaint& complain) {
  if (bytes.size() < kHeaderBytes + kSealBytes)
    return complain.no_manifest("it has " + std::to_string(bytes.size()) + " bytes, the shortest has " +
                                std::to_string(kHeaderBytes + kSealBytes));
  if (ByteReader(bytes).text(kMagic.size()) != kMagic)
    return complain.no_manifest("its first 8 bytes are not " + std::string(kMagic));
  return {};
}

Result<void> check_version(std::uint32_t version, const Complaint& complain) {
  if (version == kManifestVersion) return {};
  if (version > kManifestVersion) return complain.newer(version);
  return complain.damaged("its format is " + std::to_string(version) + ", and the first one was 1");
}

Result<void> check_seal(std::span<const std::byte> bytes, const Complaint& complain) {
  const auto total_bytes = ByteReader(bytes.subspan(kTotalOffset)).word();
  if (total_bytes != bytes.size())
    return complain.damaged("it has " + std::to_string(bytes.size()) + " bytes and says " +
                            std::to_string(total_bytes));
  const auto stored = ByteReader(bytes.last(kSealBytes)).word();
  const auto found = seal_of(bytes.first(bytes.size() - kSealBytes));
  if (stored == found) return {};
  return complain.damaged("its checksum is " + std::to_string(stored) + ", that of its bytes " + std::to_string(found));
}

Result<ManifestVolume> read_volume(ByteReader& in, std::uint64_t i, const Complaint& complain) {
  if (in.left_bytes() < kVolumeWords * kWordBytes)
    return complain.cut_off("volume " + std::to_string(i), in.left_bytes());
  ManifestVolume volume;
  volume.id = in.word();
  volume.end_bytes = in.word();
  const auto name_bytes = in.word();
  if (name_bytes > in.left_bytes()) return complain.too_many(name_bytes, "bytes of a file name", in.left_bytes());
  volume.file_name = in.text(name_bytes);
  return volume;
}

Result<ManifestValue> read_value(ByteReader& in, std::uint64_t i, std::uint64_t n_volumes, const Complaint& complain) {
  if (in.left_bytes() < (kValueWords + kExtentWords * n_volumes) * kWordBytes)
    return complain.cut_off("value " + std::to_string(i), in.left_bytes());
  ManifestValue value;
  value.key = in.word();
  value.n_bytes = in.word();
  value.extents.resize(n_volumes);
  for (auto& extent : value.extents) {
    extent.offset_bytes = in.word();
    extent.n_bytes = in.word();
  }
  const auto n_checksums = in.word();
  if (n_checksums > in.left_bytes() / kWordBytes) return complain.too_many(n_checksums, "checksums", in.left_bytes());
  value.checksums.resize(n_checksums);
  for (auto& sum : value.checksums) sum = in.word();
  return value;
}

/// Compares a count with the bytes left before it allocates memory for that many things.
Result<void> read_volumes(ByteReader& in, std::uint64_t n_volumes, Manifest& manifest, const Complaint& complain) {
  if (n_volumes > in.left_bytes() / (kVolumeWords * kWordBytes))
    return complain.too_many(n_volumes, "volumes", in.left_bytes());
  manifest.volumes.reserve(n_volumes);
  for (std::uint64_t i = 0; i < n_volumes; ++i) {
    CASTOR_ASSIGN(auto volume, read_volume(in, i, complain));
    manifest.volumes.push_back(std::move(volume));
  }
  return {};
}

Result<void> read_values(ByteReader& in, std::uint64_t n_values, Manifest& manifest, const Complaint& complain) {
  const auto n_volumes = manifest.volumes.size();
  if (n_values > in.left_bytes() / ((kValueWords + kExtentWords * n_volumes) * kWordBytes))
    return complain.too_many(n_values, "values", in.left_bytes());
  manifest.values.reserve(n_values);
  for (std::uint64_t i = 0; i < n_values; ++i) {
    CASTOR_ASSIGN(auto value, read_value(in, i, n_volumes, complain));
    manifest.values.push_back(std::move(value));
  }
  return {};
}

/// Reads the part between version and seal; does not check that the figures fit together.
Result<Manifest> read_manifest(ByteReader in, const Complaint& complain) {
  Manifest manifest;
  const auto flags = in.half();
  if (flags > kWithChecksums)
    return complain.damaged("its flags are " + std::to_string(flags) + ", and 1 is the only one");
  manifest.checksums = flags == kWithChecksums;
  in.word();  // the length
  manifest.step = in.word();
  manifest.store_id = in.word();
  manifest.block_bytes = in.word();
  const auto n_volumes = in.word();
  const auto n_values = in.word();
  CASTOR_TRY(read_volumes(in, n_volumes, manifest, complain));
  CASTOR_TRY(read_values(in, n_values, manifest, complain));
  if (in.left_bytes() > 0) return complain.damaged(std::to_string(in.left_bytes()) + " bytes follow its last value");
  return manifest;
}

}  // namespace

std::uint64_t n_value_blocks(std::uint64_t n_bytes, std::uint64_t block_bytes) {
  const auto rest_bytes = n_bytes % block_bytes;
  const auto whole_pages = rest_bytes >= kBufferAlignBytes ? 1 : 0;
  const auto tail = rest_bytes % kBufferAlignBytes != 0 ? 1 : 0;
  return n_bytes / block_bytes + whole_pages + tail;
}

std::vector<std::byte> encode_manifest(const Manifest& manifest) {
  if (const auto defect = manifest_defect(manifest))
    throw ContractViolation("a manifest to be written is not well formed: " + *defect);
  const auto total_bytes = encoded_bytes(manifest);
  ByteWriter out;
  out.reserve(total_bytes);
  add_header(out, manifest, total_bytes);
  for (const auto& volume : manifest.volumes) add_volume(out, volume);
  for (const auto& value : manifest.values) add_value(out, value);
  out.add_word(seal_of(out.bytes()));
  return std::move(out).take();
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes, std::string_view path) {
  const Complaint complain(path);
  CASTOR_TRY(check_magic(bytes, complain));
  CASTOR_TRY(check_version(ByteReader(bytes.subspan(kMagic.size())).half(), complain));
  CASTOR_TRY(check_seal(bytes, complain));
  const auto body = bytes.first(bytes.size() - kSealBytes).subspan(kMagic.size() + sizeof(kManifestVersion));
  CASTOR_ASSIGN(auto manifest, read_manifest(ByteReader(body), complain));
  if (const auto defect = manifest_defect(manifest)) return complain.damaged(*defect);
  return manifest;
}

}  // namespace castor
