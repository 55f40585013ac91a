// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <castor/memory/text.h>  // join, which the same messages use

namespace castor {

/// The name among `names` that `name` was probably meant to be: at most a third of its letters differ, and at least one
/// may. Empty if none is near.
///
/// Distance: letters inserted, removed, replaced, or swapped with their neighbour (optimal string alignment); the first
/// of equals wins.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> names);

/// `; did you mean 'train'?`, or "" where nothing is near. To be put at the end of a message.
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

}  // namespace castor
