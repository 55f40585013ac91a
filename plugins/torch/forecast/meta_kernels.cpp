// SPDX-License-Identifier: Apache-2.0
#include "meta_kernels.h"

#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace castor {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

at::TensorOptions wide(const Tensor& like) {
  const bool narrow = like.element_size() == 2;
  return like.options().dtype(narrow ? at::kFloat : like.scalar_type());
}

/// One number for each row that a norm normalises.
Tensor per_row(const Tensor& input, std::int64_t n_normalised) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - n_normalised, sizes.end(), 1);
  return at::empty(sizes, wide(input));
}

Tensor plain(const Tensor& like) { return at::empty(like.sizes(), like.options()); }
Tensor plain_if(bool wanted, const Tensor& like) { return wanted ? plain(like) : Tensor(); }

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, c10::SymIntArrayRef normalised,
                                              const OptionalTensor&, const OptionalTensor&, double) {
  const auto n = static_cast<std::int64_t>(normalised.size());
  return {plain(input), per_row(input, n), per_row(input, n)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor&, const Tensor& input, c10::SymIntArrayRef,
                                                       const Tensor&, const Tensor&, const OptionalTensor& weight,
                                                       const OptionalTensor& bias, std::array<bool, 3> wanted) {
  return {plain_if(wanted[0], input), plain_if(wanted[1] && weight, weight.value_or(Tensor())),
          plain_if(wanted[2] && bias, bias.value_or(Tensor()))};
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& input, at::IntArrayRef normalised, const OptionalTensor&,
                                    std::optional<double>) {
  return {plain(input), per_row(input, static_cast<std::int64_t>(normalised.size()))};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor&, const Tensor& input, at::IntArrayRef, const Tensor&,
                                             const OptionalTensor& weight, std::array<bool, 2> wanted) {
  return {plain_if(wanted[0], input), plain_if(wanted[1] && weight, weight.value_or(Tensor()))};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& input, const OptionalTensor&, const OptionalTensor&,
                                              const OptionalTensor&, const OptionalTensor&, bool training, double,
                                              double) {
  const Tensor per_channel = at::empty({training ? input.size(1) : 0}, wide(input));
  return {plain(input), per_channel, plain(per_channel)};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor&, const Tensor& input, const OptionalTensor& weight,
                                                       const OptionalTensor&, const OptionalTensor&,
                                                       const OptionalTensor&, const OptionalTensor&, bool, double,
                                                       std::array<bool, 3> wanted) {
  const Tensor like = weight.value_or(Tensor());
  return {plain_if(wanted[0], input), plain_if(wanted[1] && weight, like), plain_if(wanted[2] && weight, like)};
}

Tensor embedding_backward(const Tensor& grad, const Tensor&, c10::SymInt n_rows, c10::SymInt, bool) {
  return at::empty({n_rows.expect_int(), grad.size(-1)}, grad.options());
}

Tensor index_select(const Tensor& input, std::int64_t dim, const Tensor& index) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes.at(static_cast<std::size_t>(dim < 0 ? dim + input.dim() : dim)) = index.numel();
  return at::empty(sizes, input.options());
}

/// The kernel has a copy of its input for a while.
Tensor log_sum_exp(const Tensor& input, at::IntArrayRef dims, bool keepdim) {
  const Tensor exponentials = plain(input);
  return at::sum(exponentials, dims, keepdim);
}

/// One number for each dimension, where one was given for all: padding="valid" gives one 0.
std::vector<c10::SymInt> for_each(c10::SymIntArrayRef given, std::size_t n_dims) {
  std::vector<c10::SymInt> all(given.begin(), given.end());
  if (all.size() == 1) all.resize(n_dims, all.front());
  return all;
}

/// Its workspace, which the library chooses, is not counted.
Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor&, c10::SymIntArrayRef strides,
                   c10::SymIntArrayRef paddings, c10::SymIntArrayRef dilations, bool transposed,
                   c10::SymIntArrayRef output_paddings, c10::SymInt groups) {
  const auto in = input.sym_sizes(), kernel = weight.sym_sizes();
  const std::size_t n_dims = kernel.size() - 2;
  const auto stride = for_each(strides, n_dims), padding = for_each(paddings, n_dims),
             dilation = for_each(dilations, n_dims), output_padding = for_each(output_paddings, n_dims);
  const auto sizes =
      transposed ? at::native::conv_input_size(in, kernel, padding, output_padding, stride, dilation, std::move(groups))
                 : at::native::conv_output_size(in, kernel, padding, stride, dilation);
  return at::empty_symint(sizes, input.options(), input.suggest_memory_format());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        at::OptionalSymIntArrayRef bias_sizes, c10::SymIntArrayRef,
                                                        c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                                                        c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3> wanted) {
  const bool has_bias = wanted[2] && bias_sizes.has_value();
  return {plain_if(wanted[0], input), plain_if(wanted[1], weight),
          has_bias ? at::empty_symint(*bias_sizes, grad.options()) : Tensor()};
}

/// As the flash kernel lays its result out: [batch, seq, heads, size] in memory.
Tensor rows_of_heads(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

using Flash = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Flash flash_attention(const Tensor& query, const Tensor& key, const Tensor&, double, bool, bool,
                      std::optional<double>) {
  const at::TensorOptions words = query.options().dtype(at::kLong);
  const Tensor sums = at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
  return {rows_of_heads(query), sums,    Tensor(), Tensor(), query.size(2), key.size(2), at::empty({2}, words),
          at::empty({}, words), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor&, const Tensor& query, const Tensor& key,
                                                  const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                                                  const Tensor&, c10::SymInt, c10::SymInt, double, bool, const Tensor&,
                                                  const Tensor&, std::optional<double>) {
  return {rows_of_heads(query), rows_of_heads(key), rows_of_heads(value)};
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor&, double dropout,
                 bool causal, std::optional<double> scale, bool) {
  return std::get<0>(at::_scaled_dot_product_flash_attention(query, key, value, dropout, causal, false, scale));
}

}  // namespace

struct MetaKernels::Libraries {
  using Library = torch::Library;
  Library plain{Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__};
  Library with_graph{Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__};
};

MetaKernels::MetaKernels() : libraries_(std::make_unique<Libraries>()) {
  torch::Library& plain = libraries_->plain;
  plain.impl("native_layer_norm", TORCH_FN(layer_norm));
  plain.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
  plain.impl("native_batch_norm", TORCH_FN(batch_norm));
  plain.impl("native_batch_norm_backward", TORCH_FN(batch_norm_backward));
  plain.impl("_fused_rms_norm", TORCH_FN(rms_norm));
  plain.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
  plain.impl("embedding_dense_backward", TORCH_FN(embedding_backward));
  plain.impl("logsumexp", TORCH_FN(log_sum_exp));
  plain.impl("relu", TORCH_FN(castor::plain));
  plain.impl("index_select", TORCH_FN(index_select));
  plain.impl("convolution", TORCH_FN(convolution));
  plain.impl("convolution_backward", TORCH_FN(convolution_backward));
  plain.impl("_scaled_dot_product_flash_attention", TORCH_FN(flash_attention));
  plain.impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_backward));
  libraries_->with_graph.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

MetaKernels::~MetaKernels() = default;

}  // namespace castor
