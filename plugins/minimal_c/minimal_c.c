/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest plugin that trains: plain C11, <castor/plugins/abi.h> and the C library.
 *
 * Everything stays resident in host memory: per parameter the weight that the model computes with, an fp32 master, the
 * two moments of Adam and LAMB (SGD and LARS use the first) and an fp32 sum of gradients. There are no hooks around
 * units, because resident data need no fetching. Its arithmetic is that of every other placement, operation by
 * operation, so its losses are theirs to the last bit (docs/plugin_abi.md, "Same bits").
 *
 * Copy this file to begin a plugin of your own; plugins/README.md says how.
 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <castor/plugins/abi.h>

enum { ALIGN_BYTES = 512, NORM_FAN = 256 };

/* One parameter. The weight starts at a multiple of ALIGN_BYTES; master is the block that holds all four fp32 arrays.
 */
typedef struct tensor {
  uint64_t numel;
  int is_bf16;
  float *master, *exp_avg, *exp_avg_sq, *grad;
  void *weight;
  uint64_t n_updates; /* t of Adam's bias corrections: of this tensor, not of the run */
  int has_grad;
} tensor;

typedef struct trainer {
  castor_strategy_v2 table;
  const castor_host_v2 *host;
  tensor *tensors;
  uint32_t n_tensors;
  uint64_t used_bytes;
  double update_seconds;
  uint64_t n_steps;
  castor_step_result last_step;
} trainer;

/* The factors of an update: computed in double, rounded once. */
typedef struct coefficients {
  float grad_scale, max_value, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, rsqrt_bias2, step_size, decay;
  float momentum, lr, trust;
  int l2, decoupled, nesterov; /* how the decay enters; LAMB's is part of the scaled direction */
} coefficients;

/* ---- small helpers ------------------------------------------------------------------------------------- */

static castor_status fail(const castor_host_v2 *host, castor_status status, const char *sentence) {
  const castor_error error = {.struct_size = sizeof error, .status = status, .message = sentence, .tier = -1};
  host->model->set_error(host->self, &error);
  return status;
}

static uint64_t weight_bytes(const tensor *t) {
  const uint64_t n_bytes = t->numel * (t->is_bf16 ? 2 : 4);
  return (n_bytes / ALIGN_BYTES + 1) * ALIGN_BYTES; /* never 0 */
}

static uint64_t state_bytes(const tensor *t) { return 4 * t->numel * sizeof(float); }

static int same_dtype(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

/* Nearest, ties away from zero; one NaN for all. */
static uint16_t round_to_bf16(float value) {
  uint32_t bits;
  if (isnan(value)) return 0x7fc0;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x8000u) >> 16);
}

static float bf16_to_float(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void write_weight(const tensor *t) {
  uint16_t *halves = t->weight;
  if (!t->is_bf16) {
    memcpy(t->weight, t->master, t->numel * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < t->numel; ++i) halves[i] = round_to_bf16(t->master[i]);
}

static double now_seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- attach: memory and initial values ----------------------------------------------------------------- */

static castor_status allocate(trainer *self, tensor *t) {
  t->weight = aligned_alloc(ALIGN_BYTES, weight_bytes(t));
  t->master = calloc(t->numel ? 4 * t->numel : 1, sizeof(float));
  if (!t->weight || !t->master)
    return fail(self->host, CASTOR_DOES_NOT_FIT,
                "minimal_c: the host has no memory left for a parameter and its states");
  t->exp_avg = t->master + t->numel;
  t->exp_avg_sq = t->exp_avg + t->numel;
  t->grad = t->exp_avg_sq + t->numel;
  self->used_bytes += weight_bytes(t) + state_bytes(t);
  return CASTOR_OK;
}

static castor_status attach_one(trainer *self, uint32_t param) {
  const castor_host_v2 *host = self->host;
  tensor *t = &self->tensors[param];
  castor_status status = allocate(self, t);
  const castor_values all = {.struct_size = sizeof all, .param = param, .n = t->numel, .form = CASTOR_FP32,
                             .data = t->master};
  if (status == CASTOR_OK) status = host->model->first_values(host->self, &all);
  if (status != CASTOR_OK) return status;
  write_weight(t);
  return host->model->bind(host->self, param, t->weight);
}

static castor_status attach(void *opaque) {
  trainer *self = opaque;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    const castor_status status = attach_one(self, i);
    if (status != CASTOR_OK) return status;
  }
  return CASTOR_OK;
}

/* ---- gradient: an fp32 sum in order of arrival --------------------------------------------------------- */

static void add_gradient(tensor *t, const void *data) {
  const float *singles = data;
  const uint16_t *halves = data;
  for (uint64_t i = 0; i < t->numel; ++i) t->grad[i] += t->is_bf16 ? bf16_to_float(halves[i]) : singles[i];
  t->has_grad = 1;
}

/* The host has checked it: it has the shape, dtype and order of elements of its parameter. */
static castor_status gradient(void *opaque, uint32_t param, DLManagedTensor *grad) {
  trainer *self = opaque;
  add_gradient(&self->tensors[param], (const char *)grad->dl_tensor.data + grad->dl_tensor.byte_offset);
  if (grad->deleter) grad->deleter(grad);
  return CASTOR_OK;
}

static void drop_gradient(tensor *t) {
  memset(t->grad, 0, t->numel * sizeof(float));
  t->has_grad = 0;
}

/* ---- the norm: an order of summation that depends on the length alone ---------------------------------- */

typedef float (*getter)(const tensor *t, const coefficients *c, uint64_t i);

static float grad_at(const tensor *t, const coefficients *c, uint64_t i) {
  (void)c;
  return t->grad[i];
}

static float master_at(const tensor *t, const coefficients *c, uint64_t i) {
  (void)c;
  return t->master[i];
}

static float weight_at(const tensor *t, const coefficients *c, uint64_t i) {
  (void)c;
  return t->is_bf16 ? bf16_to_float(((const uint16_t *)t->weight)[i]) : ((const float *)t->weight)[i];
}

/* The node over the squares of `span` elements from `begin` on, `span` a power of NORM_FAN: its NORM_FAN children
 * fold in halves. `c`: for a getter that computes; else null. */
static double sum_node(const tensor *t, getter at, const coefficients *c, uint64_t begin, uint64_t span) {
  if (begin >= t->numel) return 0;
  if (span == 1) {
    const double value = at(t, c, begin);
    return value * value;
  }
  double children[NORM_FAN];
  const uint64_t of_child = span / NORM_FAN;
  for (int i = 0; i < NORM_FAN; ++i) children[i] = sum_node(t, at, c, begin + i * of_child, of_child);
  for (int half = NORM_FAN / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) children[i] += children[i + half];
  return children[0];
}

static double sum_of_squares(const tensor *t, getter at, const coefficients *c) {
  uint64_t span = NORM_FAN;
  while (span < t->numel) span *= NORM_FAN;
  return sum_node(t, at, c, 0, span);
}

/* Returns the factor of every gradient; sets result->skipped and result->grad_norm. */
static double scale_of(const trainer *self, const castor_step_args *args, castor_step_result *result) {
  double total = 0;
  result->skipped = 0;
  result->grad_norm = -1;
  if (args->max_norm == 0 && args->loss_scale == 1) return 1;
  for (uint32_t i = 0; i < self->n_tensors; ++i)
    total += self->tensors[i].has_grad ? sum_of_squares(&self->tensors[i], grad_at, NULL) : 0;
  result->skipped = !isfinite(total);
  result->grad_norm = sqrt(total) / args->loss_scale;
  const double clip = args->max_norm > 0 ? fmin(1, args->max_norm / (result->grad_norm + 1e-6)) : 1;
  return 1 / args->loss_scale * clip;
}

/* ---- the rules ----------------------------------------------------------------------------------------- */

/* By repeated squaring: the last bit of pow() depends on the C library. */
static double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

/* The values for one parameter: those of its group, or of the step where there are no groups. */
static castor_param_group values_for(const castor_step_args *args, uint32_t param) {
  const castor_param_group all = {sizeof all, args->lr,           args->beta1,   args->beta2,
                                  args->eps,  args->weight_decay, args->momentum, args->trust_coefficient};
  return args->n_groups > 0 ? *args->groups[args->group_of[param]] : all;
}

static coefficients coefficients_of(const castor_step_args *args, const castor_param_group *of, uint64_t t,
                                    double grad_scale) {
  const int decoupled = args->optimizer == CASTOR_ADAMW, lamb = args->optimizer == CASTOR_LAMB;
  const coefficients c = {
      .grad_scale = (float)grad_scale,
      .max_value = args->max_value > 0 ? (float)args->max_value : INFINITY,
      .beta1 = (float)of->beta1,
      .one_minus_beta1 = (float)(1 - of->beta1),
      .beta2 = (float)of->beta2,
      .one_minus_beta2 = (float)(1 - of->beta2),
      .eps = (float)of->eps,
      .rsqrt_bias2 = (float)(1 / sqrt(1 - power(of->beta2, t))),
      .step_size = (float)((lamb ? 1 : of->lr) / (1 - power(of->beta1, t))),
      .decay = (float)(decoupled ? of->lr * of->weight_decay : of->weight_decay),
      .momentum = (float)of->momentum,
      .lr = (float)of->lr,
      .trust = 1,
      .l2 = args->optimizer == CASTOR_ADAM,
      .decoupled = decoupled,
      .nesterov = args->nesterov != 0,
  };
  return c;
}

/* NaN, for which no comparison holds, stays. */
static float clamped(float value, float limit) {
  if (value > limit) return limit;
  return value < -limit ? -limit : value;
}

/* Processors make NaNs of different bits; one pattern is stored. */
static float canonical(float value) { return isnan(value) ? (float)NAN : value; }

/* The moments after this gradient, and m/d. */
typedef struct moments {
  float m, v, ratio;
} moments;

/* Kingma and Ba 2015, algorithm 1. One rounding per operation, no fused multiply-add: needs -ffp-contract=off. */
static moments moments_of(const tensor *t, const coefficients *c, uint64_t i) {
  float g = clamped(t->grad[i] * c->grad_scale, c->max_value);
  if (c->l2) g = g + c->decay * t->master[i];
  const float m = c->beta1 * t->exp_avg[i] + c->one_minus_beta1 * g;
  const float v = c->beta2 * t->exp_avg_sq[i] + (c->one_minus_beta2 * g) * g;
  const float d = sqrtf(v) * c->rsqrt_bias2 + c->eps;
  const moments found = {m, v, m / d};
  return found;
}

static void store(tensor *t, uint64_t i, float master, moments of) {
  t->master[i] = canonical(master);
  t->exp_avg[i] = canonical(of.m);
  t->exp_avg_sq[i] = canonical(of.v);
}

/* Decoupled decay: Loshchilov and Hutter 2019, algorithm 2. */
static void update_by_adam(tensor *t, const coefficients *c, uint64_t i) {
  const moments of = moments_of(t, c, i);
  float p = t->master[i];
  if (c->decoupled) p = p - c->decay * p;
  store(t, i, p - c->step_size * of.ratio, of);
}

/* You et al. 2020, algorithm 2: the direction r, which the norms of the whole tensor scale. */
static float direction_of(const tensor *t, const coefficients *c, uint64_t i, moments of) {
  return c->step_size * of.ratio + c->decay * t->master[i];
}

static float direction_at(const tensor *t, const coefficients *c, uint64_t i) {
  return direction_of(t, c, i, moments_of(t, c, i));
}

static void update_by_lamb(tensor *t, const coefficients *c, uint64_t i) {
  const moments of = moments_of(t, c, i);
  const float rate = c->lr * c->trust;
  store(t, i, t->master[i] - rate * direction_of(t, c, i, of), of);
}

/* Sutskever et al. 2013 in the form of torch.optim.SGD: the decay is added to the gradient, lr stands outside of the
 * momentum, which is in exp_avg. */
static void update_by_sgd(tensor *t, const coefficients *c, uint64_t i) {
  const float p = t->master[i];
  const float g = c->trust * (clamped(t->grad[i] * c->grad_scale, c->max_value) + c->decay * p);
  const float b = c->momentum * t->exp_avg[i] + g;
  const float d = c->nesterov ? g + c->momentum * b : b;
  t->master[i] = canonical(p - c->lr * d);
  t->exp_avg[i] = canonical(b);
}

/* You, Gitman and Ginsburg 2017: the factor of LARS for the gradient of a tensor. `c`: the coefficients of its
 * update. */
static float trust_of_lars(const tensor *t, const coefficients *c, const castor_param_group *of, double grad_scale) {
  if (of->trust_coefficient <= 0) return 1;
  const double weights = sqrt(sum_of_squares(t, weight_at, c)), grads = sqrt(sum_of_squares(t, grad_at, c));
  if (!(weights > 0) || !(grads > 0)) return 1;
  const double scaled = grad_scale * grads, decay = of->weight_decay != 0 ? of->weight_decay * weights : 0;
  return (float)(of->trust_coefficient * weights / (scaled + decay + of->eps));
}

/* The factor of LAMB for the direction of a tensor. */
static float trust_of_lamb(const tensor *t, const coefficients *c) {
  const double masters = sqrt(sum_of_squares(t, master_at, c)), directions = sqrt(sum_of_squares(t, direction_at, c));
  return masters > 0 && directions > 0 ? (float)(masters / directions) : 1;
}

typedef void (*rule)(tensor *t, const coefficients *c, uint64_t i);

static rule rule_of(uint32_t optimizer) {
  if (optimizer == CASTOR_LAMB) return update_by_lamb;
  return optimizer == CASTOR_ADAM || optimizer == CASTOR_ADAMW ? update_by_adam : update_by_sgd;
}

static void update(tensor *t, const castor_step_args *args, const castor_param_group *of, double grad_scale) {
  const rule update_one = rule_of(args->optimizer);
  coefficients c = coefficients_of(args, of, ++t->n_updates, grad_scale);
  if (args->optimizer == CASTOR_LARS) c.trust = trust_of_lars(t, &c, of, grad_scale);
  if (args->optimizer == CASTOR_LAMB) c.trust = trust_of_lamb(t, &c);
  for (uint64_t i = 0; i < t->numel; ++i) update_one(t, &c, i);
  write_weight(t);
}

/* The caller's rounding mode and flush-to-zero do not reach the update. */
static castor_status begin_step(void *opaque, const castor_step_args *args, uint64_t *ticket) {
  trainer *self = opaque;
  castor_step_result *result = &self->last_step;
  const double begin = now_seconds();
  fenv_t callers;
  fegetenv(&callers);
  fesetenv(FE_DFL_ENV);
  const double grad_scale = scale_of(self, args, result);
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    tensor *t = &self->tensors[i];
    const castor_param_group values = values_for(args, i);
    if (t->has_grad && !result->skipped) update(t, args, &values, grad_scale);
    drop_gradient(t);
  }
  fesetenv(&callers);
  self->update_seconds += now_seconds() - begin;
  *ticket = ++self->n_steps;
  return CASTOR_OK;
}

static castor_status step_result(void *opaque, uint64_t ticket, castor_step_result *out) {
  const trainer *self = opaque;
  if (ticket != self->n_steps)
    return fail(self->host, CASTOR_USAGE, "minimal_c: it knows the result of the last step alone");
  *out = self->last_step;
  out->struct_size = sizeof *out;
  return CASTOR_OK;
}

/* ---- the rest of the table ----------------------------------------------------------------------------- */

static castor_status read_masters(void *opaque, const castor_values *out) {
  const trainer *self = opaque;
  const tensor *t = &self->tensors[out->param];
  const uint64_t left = out->first <= t->numel ? t->numel - out->first : 0;
  if (out->form != CASTOR_FP32 || (out->n != CASTOR_ALL && out->n > left))
    return fail(self->host, CASTOR_USAGE, "minimal_c: masters are fp32, and only as many as the parameter has");
  memcpy(out->data, t->master + out->first, (out->n == CASTOR_ALL ? left : out->n) * sizeof(float));
  return CASTOR_OK;
}

/* The host is the compute device here, so the weights and the states of the update both count as device tier. */
static castor_status stats(void *opaque, castor_stats *out) {
  const trainer *self = opaque;
  const uint32_t struct_size = out->struct_size;
  memset(out, 0, sizeof *out);
  out->struct_size = struct_size;
  for (int tier = 0; tier < 3; ++tier) out->budget_bytes[tier] = UINT64_MAX;
  out->used_bytes[0] = out->peak_bytes[0] = self->used_bytes;
  out->update_seconds = self->update_seconds;
  return CASTOR_OK;
}

static void destroy(void *opaque) {
  trainer *self = opaque;
  for (uint32_t i = 0; i < self->n_tensors; ++i) {
    if (self->tensors[i].weight) self->host->model->unbind(self->host->self, i, "its plugin (minimal_c) was destroyed");
    free(self->tensors[i].weight);
    free(self->tensors[i].master);
  }
  free(self->tensors);
  free(self);
}

/* ---- create and the description ------------------------------------------------------------------------ */

static castor_status describe(const castor_host_v2 *host, uint32_t param, tensor *t) {
  const DLDataType fp32 = {kDLFloat, 32, 1}, bf16 = {kDLBfloat, 16, 1};
  castor_param_info info = {.struct_size = sizeof info};
  const castor_status status = host->model->param_info(host->self, param, &info);
  if (status != CASTOR_OK) return status;
  if (!same_dtype(info.dtype, fp32) && !same_dtype(info.dtype, bf16))
    return fail(host, CASTOR_USAGE,
                "minimal_c trains fp32 and bf16 parameters only; choose `precision` bf16 or another plugin");
  t->numel = info.numel;
  t->is_bf16 = same_dtype(info.dtype, bf16);
  return CASTOR_OK;
}

static const castor_steps_v2 STEPS = {
    .struct_size = sizeof STEPS,
    .attach = attach,
    .gradient = gradient,
    .begin_step = begin_step,
    .step_result = step_result,
    .stats = stats,
};

static const castor_values_v2 VALUES = {
    .struct_size = sizeof VALUES,
    .read_masters = read_masters,
};

static const castor_strategy_v2 TABLE = {
    .struct_size = sizeof TABLE,
    .steps = &STEPS,
    .values = &VALUES,
    .destroy = destroy,
};

static trainer *new_trainer(const castor_host_v2 *host) {
  trainer *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->n_tensors = host->model->n_params(host->self);
  self->tensors = calloc(self->n_tensors + 1u, sizeof *self->tensors);
  self->host = host;
  self->table = TABLE;
  self->table.self = self;
  return self;
}

static castor_status create(const castor_host_v2 *host, const castor_option_value *const *values,
                            size_t n_values, const castor_strategy_v2 **out) {
  castor_status status = CASTOR_OK;
  (void)values, (void)n_values; /* no options */
  trainer *self = new_trainer(host);
  if (!self || !self->tensors) {
    free(self);
    return fail(host, CASTOR_DOES_NOT_FIT, "minimal_c: the host has no memory left for its tables");
  }
  for (uint32_t i = 0; i < self->n_tensors && status == CASTOR_OK; ++i) status = describe(host, i, &self->tensors[i]);
  if (status == CASTOR_OK) *out = &self->table;
  if (status != CASTOR_OK) destroy(self);
  return status;
}

static const castor_plugin_info INFO = {
    .magic = CASTOR_PLUGIN_MAGIC,
    .struct_size = sizeof(castor_plugin_info),
    .abi_major = CASTOR_ABI_MAJOR,
    .abi_minor = CASTOR_ABI_MINOR,
    .capabilities = CASTOR_CAP_CPU,
    .torch_tag = "",
    .castor_tag = "",
    .name = "minimal_c",
    .version = "1.0",
    .summary = "everything resident in host memory, in plain C11: the plugin to begin from",
    .create = create,
};

const castor_plugin_info *castor_plugin_query_v2(void) { return &INFO; }
