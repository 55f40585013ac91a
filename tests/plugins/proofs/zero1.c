/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO-1 in plain C11 over the groups of ABI 2 (Rajbhandari et al. 2020): every rank has all weights and gradients, and
 * the master and moments of one part of each parameter. A step sums the gradients to their parts, updates them, and
 * gathers the weights. It shows that the ABI is enough for ranks; fp32 parameters in host memory and AdamW, no more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proof.h"

typedef struct tensor {
  uint64_t numel, first, n; /* first and n: this rank's part */
  uint64_t owned[2];
  uint64_t *counts; /* elements of each rank's part */
  float *weight, *grad, *sum, *master, *exp_avg, *exp_avg_sq;
  uint64_t n_updates;
  uint64_t has_grad; /* on any rank, once agreed */
} tensor;

typedef struct trainer {
  castor_strategy_v2 table;
  const castor_host_v2 *host;
  uint32_t rank, size, n_tensors;
  tensor *tensors;
  uint64_t n_steps;
  castor_step_result last_step;
} trainer;

static const DLDataType FP64 = {kDLFloat, 64, 1};

/* ---- memory -------------------------------------------------------------------------------------------- */

static int cut(const trainer *self, tensor *t) {
  const uint64_t most = (t->numel + self->size - 1) / self->size;
  t->counts = calloc(self->size, sizeof *t->counts);
  if (!t->counts) return 0;
  for (uint32_t rank = 0; rank < self->size; ++rank) {
    const uint64_t first = rank * most < t->numel ? rank * most : t->numel;
    t->counts[rank] = t->numel - first < most ? t->numel - first : most;
    if (rank == self->rank) t->first = first, t->n = t->counts[rank];
  }
  t->owned[0] = t->first, t->owned[1] = t->first + t->n;
  return 1;
}

static castor_status attach_one(trainer *self, uint32_t param) {
  tensor *t = &self->tensors[param];
  t->weight = aligned_floats(t->numel);
  t->grad = calloc(t->numel + 1, sizeof(float));
  t->master = calloc(4 * t->n + 1, sizeof(float));
  if (!t->weight || !t->grad || !t->master)
    return no_memory(self->host);
  t->exp_avg = t->master + t->n, t->exp_avg_sq = t->exp_avg + t->n, t->sum = t->exp_avg_sq + t->n;
  const castor_values all = {sizeof all, param, 0, t->numel, CASTOR_FP32, t->weight};
  const castor_status status = self->host->model->first_values(self->host->self, &all);
  if (status != CASTOR_OK) return status;
  memcpy(t->master, t->weight + t->first, t->n * sizeof(float));
  return self->host->model->bind(self->host->self, param, t->weight);
}

static castor_status attach(void *opaque) {
  trainer *self = opaque;
  castor_status status = CASTOR_OK;
  for (uint32_t i = 0; i < self->n_tensors && status == CASTOR_OK; ++i) status = attach_one(self, i);
  return status;
}

/* ---- the step ------------------------------------------------------------------------------------------ */

static castor_status gradient(void *opaque, uint32_t param, DLManagedTensor *grad) {
  tensor *t = &((trainer *)opaque)->tensors[param];
  const float *data = (const float *)((const char *)grad->dl_tensor.data + grad->dl_tensor.byte_offset);
  for (uint64_t i = 0; i < t->numel; ++i) t->grad[i] += data[i];
  t->has_grad = 1;
  if (grad->deleter) grad->deleter(grad);
  return CASTOR_OK;
}

/* A rank without a gradient of a parameter (an expert that got no token) takes part with zeros. */
static castor_status agree_on_presence(trainer *self) {
  const castor_host_v2 *host = self->host;
  uint64_t *present = calloc(self->n_tensors + 1u, sizeof *present);
  if (!present) return no_memory(host);
  for (uint32_t i = 0; i < self->n_tensors; ++i) present[i] = self->tensors[i].has_grad;
  const castor_agreement all = {sizeof all, WORLD, CASTOR_OR, self->n_tensors, present};
  const castor_status status = host->groups->agree(host->self, &all);
  for (uint32_t i = 0; i < self->n_tensors; ++i) self->tensors[i].has_grad = present[i];
  free(present);
  return status;
}

static castor_status sum_gradients(trainer *self) {
  const castor_host_v2 *host = self->host;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    tensor *t = &self->tensors[i];
    if (!t->has_grad) continue;
    const castor_collective call = {.struct_size = sizeof call, .group = WORLD, .send = t->grad, .recv = t->sum,
                                    .dtype = FP32, .n = t->n, .counts = t->counts};
    const castor_status status = host->groups->reduce_scatter(host->self, &call);
    if (status != CASTOR_OK) return status;
  }
  return CASTOR_OK;
}

static castor_status measure(trainer *self, double max_norm, double *scale) {
  const castor_host_v2 *host = self->host;
  double own = 0, all = 0;
  *scale = 1;
  self->last_step.grad_norm = -1;
  if (max_norm == 0) return CASTOR_OK;
  for (uint32_t i = 0; i < self->n_tensors; ++i)
    for (uint64_t k = 0; self->tensors[i].has_grad && k < self->tensors[i].n; ++k)
      own += (double)self->tensors[i].sum[k] * self->tensors[i].sum[k];
  const castor_collective call = {
      .struct_size = sizeof call, .group = WORLD, .send = &own, .recv = &all, .dtype = FP64, .n = 1};
  const castor_status status = host->groups->all_reduce(host->self, &call);
  self->last_step.grad_norm = sqrt(all);
  *scale = fmin(1, max_norm / (self->last_step.grad_norm + 1e-6));
  return status;
}

static double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

/* docs/plugin_abi.md, "Same bits". */
static void update(tensor *t, const castor_step_args *args, double grad_scale) {
  const uint64_t updates = ++t->n_updates;
  const float scale = (float)grad_scale, beta1 = (float)args->beta1, rest1 = (float)(1 - args->beta1);
  const float beta2 = (float)args->beta2, rest2 = (float)(1 - args->beta2), eps = (float)args->eps;
  const float root2 = (float)(1 / sqrt(1 - power(args->beta2, updates)));
  const float size = (float)(args->lr / (1 - power(args->beta1, updates)));
  const float decay = (float)(args->lr * args->weight_decay);
  for (uint64_t i = 0; i < t->n; ++i) {
    const float g = t->sum[i] * scale;
    const float m = beta1 * t->exp_avg[i] + rest1 * g;
    const float v = beta2 * t->exp_avg_sq[i] + (rest2 * g) * g;
    const float d = sqrtf(v) * root2 + eps;
    const float p = t->master[i] - decay * t->master[i];
    t->master[i] = p - size * (m / d);
    t->exp_avg[i] = m, t->exp_avg_sq[i] = v;
  }
}

static castor_status update_and_gather(trainer *self, const castor_step_args *args, double scale) {
  const castor_host_v2 *host = self->host;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    tensor *t = &self->tensors[i];
    if (!t->has_grad) continue;
    update(t, args, scale);
    const castor_collective call = {.struct_size = sizeof call, .group = WORLD, .send = t->master, .recv = t->weight,
                                    .dtype = FP32, .n = t->n, .counts = t->counts};
    const castor_status status = host->groups->all_gather(host->self, &call);
    if (status != CASTOR_OK) return status;
  }
  return CASTOR_OK;
}

static castor_status discard_gradients(void *opaque) {
  trainer *self = opaque;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    memset(self->tensors[i].grad, 0, self->tensors[i].numel * sizeof(float));
    self->tensors[i].has_grad = 0;
  }
  return CASTOR_OK;
}

static castor_status begin_step(void *opaque, const castor_step_args *args, uint64_t *ticket) {
  trainer *self = opaque;
  double scale = 1;
  if (args->optimizer != CASTOR_ADAMW || args->n_groups > 0 || args->loss_scale != 1 || args->max_value != 0)
    return stub_fail(self->host, CASTOR_USAGE, "zero1 knows AdamW, with or without clipping by the norm, and no more");
  castor_status status = agree_on_presence(self);
  if (status == CASTOR_OK) status = sum_gradients(self);
  if (status == CASTOR_OK) status = measure(self, args->max_norm, &scale);
  if (status == CASTOR_OK) status = update_and_gather(self, args, scale);
  if (status != CASTOR_OK) return status;
  *ticket = ++self->n_steps;
  return discard_gradients(self);
}

static castor_status step_result(void *opaque, uint64_t ticket, castor_step_result *out) {
  const trainer *self = opaque;
  if (ticket != self->n_steps)
    return stub_fail(self->host, CASTOR_USAGE, "zero1: it knows the result of the last step alone");
  out->skipped = 0, out->grad_norm = self->last_step.grad_norm;
  return CASTOR_OK;
}

/* ---- the rest of the tables ---------------------------------------------------------------------------- */

static castor_status owned_ranges(void *opaque, uint32_t param, castor_ranges *out) {
  out->n = 1, out->first_and_end = ((const trainer *)opaque)->tensors[param].owned;
  return CASTOR_OK;
}

static castor_status read_masters(void *opaque, const castor_values *out) {
  const trainer *self = opaque;
  const tensor *t = &self->tensors[out->param];
  if (out->form != CASTOR_FP32 || out->first < t->first || out->n > t->n || out->first - t->first > t->n - out->n)
    return stub_fail(self->host, CASTOR_USAGE,
                "zero1: this rank does not keep these masters; ask owned_ranges which it does");
  memcpy(out->data, t->master + (out->first - t->first), out->n * sizeof(float));
  return CASTOR_OK;
}

static void destroy(void *opaque) {
  trainer *self = opaque;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    if (self->tensors[i].weight) self->host->model->unbind(self->host->self, i, "zero1 has ended");
    free(self->tensors[i].weight), free(self->tensors[i].grad), free(self->tensors[i].master);
    free(self->tensors[i].counts);
  }
  free(self->tensors);
  free(self);
}

static const castor_steps_v2 STEPS = {.struct_size = sizeof STEPS,
                                      .attach = attach,
                                      .gradient = gradient,
                                      .begin_step = begin_step,
                                      .step_result = step_result,
                                      .discard_gradients = discard_gradients,
                                      .stats = no_stats};
static const castor_values_v2 VALUES = {
    .struct_size = sizeof VALUES, .owned_ranges = owned_ranges, .read_masters = read_masters};

static castor_status fill(trainer *self) {
  const castor_host_v2 *host = self->host;
  castor_group_info world = {.struct_size = sizeof world};
  castor_status status = CASTOR_OK;
  if (!host->groups) return stub_fail(host, CASTOR_USAGE, "zero1 divides states among ranks, and there is one");
  status = host->groups->group_info(host->self, WORLD, &world);
  self->rank = world.rank, self->size = world.size;
  for (uint32_t i = 0; i < self->n_tensors && status == CASTOR_OK; ++i) {
    castor_param_info info = {.struct_size = sizeof info};
    status = host->model->param_info(host->self, i, &info);
    self->tensors[i].numel = info.numel;
    if (status == CASTOR_OK && (info.dtype.code != kDLFloat || info.dtype.bits != 32))
      status = stub_fail(host, CASTOR_USAGE, "zero1 trains fp32 parameters only");
    if (status == CASTOR_OK && !cut(self, &self->tensors[i]))
      status = no_memory(host);
  }
  return status;
}

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values, size_t n_values,
                            const castor_strategy_v2 **out) {
  (void)values, (void)n_values;
  trainer *self = calloc(1, sizeof *self);
  if (!self) return no_memory(host);
  self->host = host;
  self->n_tensors = host->model->n_params(host->self);
  self->tensors = calloc(self->n_tensors + 1u, sizeof *self->tensors);
  const castor_strategy_v2 table = {
      .struct_size = sizeof table, .self = self, .steps = &STEPS, .values = &VALUES, .destroy = destroy};
  self->table = table;
  const castor_status status =
      self->tensors ? fill(self) : no_memory(host);
  if (status == CASTOR_OK) *out = &self->table;
  if (status != CASTOR_OK) self->n_tensors = self->tensors ? self->n_tensors : 0, destroy(self);
  return status;
}

STUB("zero1", .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_RANKS,
     .summary = "states divided among ranks, in plain C11: a proof for the tests", .create = create)
