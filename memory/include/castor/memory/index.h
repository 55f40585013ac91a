// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace castor {

/// An index is a type: a scoped enumeration over std::uint32_t without enumerators, such as
/// `enum class ChunkId : std::uint32_t {};`. Two kinds of index do not convert into each other, so a chunk's number
/// cannot be passed for a tensor's.
template <typename T>
concept IndexType = std::is_enum_v<T> && std::same_as<std::underlying_type_t<T>, std::uint32_t> &&
                    !std::is_convertible_v<T, std::uint32_t>;

/// The position in a table.
template <IndexType Id>
constexpr std::size_t index(Id id) {
  return static_cast<std::size_t>(id);
}

/// The bare number, for text, files and the C ABI.
template <IndexType Id>
constexpr std::uint32_t number(Id id) {
  return static_cast<std::uint32_t>(id);
}

/// The index at `position` of a table. Requires: `position` is below 2^32.
template <IndexType Id>
constexpr Id id_at(std::size_t position) {
  return static_cast<Id>(position);
}

/// The indexes from one to another, ascending: a range to loop over.
template <IndexType Id>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;  ///< a dereference returns a value
    using iterator_concept = std::bidirectional_iterator_tag;
    using reference = Id;
    using pointer = void;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::size_t position) : position_(position) {}
    constexpr Id operator*() const { return id_at<Id>(position_); }
    constexpr Iterator& operator++() { return ++position_, *this; }
    constexpr Iterator& operator--() { return --position_, *this; }
    constexpr Iterator operator++(int) { return Iterator(position_++); }
    constexpr Iterator operator--(int) { return Iterator(position_--); }
    bool operator==(const Iterator&) const = default;

   private:
    std::size_t position_ = 0;
  };

  /// `first` and `n` - 1 indexes after it.
  constexpr IdRange(Id first, std::size_t n) : begin_(index(first)), end_(index(first) + n) {}
  constexpr Iterator begin() const { return Iterator(begin_); }
  constexpr Iterator end() const { return Iterator(end_); }
  constexpr std::size_t size() const { return end_ - begin_; }

  /// The same indexes from the last to the first.
  class Backward {
   public:
    constexpr explicit Backward(const IdRange& range) : range_(range) {}
    constexpr auto begin() const { return std::reverse_iterator<Iterator>(range_.end()); }
    constexpr auto end() const { return std::reverse_iterator<Iterator>(range_.begin()); }

   private:
    const IdRange range_;
  };
  constexpr Backward backward() const { return Backward(*this); }

 private:
  std::size_t begin_, end_;
};

/// The first `n` indexes.
template <IndexType Id>
constexpr IdRange<Id> ids(std::size_t n) {
  return {Id{}, n};
}

/// A table with one entry for each index of a kind: a std::vector that only an `Id` subscripts.
template <IndexType Id, typename T>
class IndexedVector {
 public:
  using Vector = std::vector<T>;
  using value_type = T;
  using iterator = typename Vector::iterator;
  using const_iterator = typename Vector::const_iterator;
  using reference = typename Vector::reference;
  using const_reference = typename Vector::const_reference;

  IndexedVector() = default;
  explicit IndexedVector(std::size_t n) : entries_(n) {}
  IndexedVector(std::size_t n, const T& value) : entries_(n, value) {}
  explicit IndexedVector(Vector entries) : entries_(std::move(entries)) {}
  IndexedVector(std::initializer_list<T> entries) : entries_(entries) {}

  reference operator[](Id id) { return entries_[index(id)]; }
  const_reference operator[](Id id) const { return entries_[index(id)]; }
  /// Errors: std::out_of_range.
  reference at(Id id) { return entries_.at(index(id)); }
  const_reference at(Id id) const { return entries_.at(index(id)); }
  bool contains(Id id) const { return index(id) < size(); }

  /// Adds an entry at the end; returns its index.
  Id push_back(T entry) {
    entries_.push_back(std::move(entry));
    return id_at<Id>(size() - 1);
  }
  void resize(std::size_t n) { entries_.resize(n); }
  void resize(std::size_t n, const T& value) { entries_.resize(n, value); }
  void assign(std::size_t n, const T& value) { entries_.assign(n, value); }
  void reserve(std::size_t n) { entries_.reserve(n); }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// All indexes that have an entry.
  IdRange<Id> ids() const { return castor::ids<Id>(size()); }
  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  reference back() { return entries_.back(); }
  const_reference back() const { return entries_.back(); }
  /// The entries in the order of their indexes.
  const Vector& entries() const { return entries_; }

  bool operator==(const IndexedVector&) const = default;

 private:
  Vector entries_;
};

}  // namespace castor
