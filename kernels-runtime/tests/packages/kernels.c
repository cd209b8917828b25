#include <math.h>

#ifndef FACTOR
#define FACTOR 1
#endif
#ifndef SLOPE
#define SLOPE 1
#endif
#ifndef LEFT_OUT
#define LEFT_OUT 0
#endif

static float *data(const Any *any) {
  return any->type == 7 ? ((const Tensor *)any->value.pointer)->data : 0;
}

static int64_t count(const Any *any) {
  const Tensor *t = any->value.pointer;
  int64_t n = 1;
  for (int32_t i = 0; i < t->axes; i++) n *= t->shape[i];
  return n;
}

static int64_t width(const Any *any) {
  const Tensor *t = any->value.pointer;
  return t->shape[t->axes - 1];
}

/* x, weight, eps, y, rstd */
int __tvm_ffi_rms_norm(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 5 || !of_f32(a) || !of_f32(a + 1) || a[2].type != 3 || !of_f32(a + 3) || !of_f32(a + 4))
    return fail("rms_norm takes x, weight, eps, y and rstd in f32");
  int64_t size = width(a), rows = count(a) / size;
  if (size == 13) return fail("rows of 13 are not supported");
  const float *x = data(a), *w = data(a + 1);
  float *y = data(a + 3), *rstd = data(a + 4);
  for (int64_t r = 0; r < rows; r++, x += size, y += size) {
    double sum = 0;
    for (int64_t i = 0; i < size; i++) sum += (double)x[i] * x[i];
    rstd[r] = 1 / sqrt(sum / size + a[2].value.real);
    for (int64_t i = 0; i < size - LEFT_OUT; i++) y[i] = FACTOR * x[i] * rstd[r] * w[i];
  }
  return 0;
}

/* x, weight, rstd, dy, dx, dw; the last two may be null */
int __tvm_ffi_rms_norm_backward(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 6) return fail("rms_norm_backward takes 6 arguments");
  int64_t size = width(a), rows = count(a) / size;
  const float *x = data(a), *w = data(a + 1), *rstd = data(a + 2), *dy = data(a + 3);
  float *dx = data(a + 4), *dw = data(a + 5);
  for (int64_t i = 0; dw && i < size; i++) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += (double)dy[r * size + i] * x[r * size + i] * rstd[r];
    dw[i] = SLOPE * sum;
  }
  for (int64_t r = 0; dx && r < rows; r++, x += size, dy += size, dx += size) {
    double sum = 0;
    for (int64_t i = 0; i < size; i++) sum += (double)w[i] * dy[i] * x[i] * rstd[r];
    for (int64_t i = 0; i < size; i++) dx[i] = rstd[r] * (w[i] * dy[i] - x[i] * rstd[r] * sum / size);
  }
  return 0;
}

/* gate, up, y */
int __tvm_ffi_swiglu(void *self, const Any *a, int32_t n, Any *result) {
  const float *gate = data(a), *up = data(a + 1);
  float *y = data(a + 2);
  for (int64_t i = 0, all = count(a); i < all; i++) y[i] = gate[i] / (1 + exp(-(double)gate[i])) * up[i];
  return 0;
}

/* x, cap, y */
int __tvm_ffi_softcap(void *self, const Any *a, int32_t n, Any *result) {
  const float *x = data(a);
  float *y = data(a + 2);
  double cap = a[1].value.real;
  for (int64_t i = 0, all = count(a); i < all; i++) y[i] = cap * tanh(x[i] / cap);
  return 0;
}

/* cap, y, dy, dx: the slope by the result */
int __tvm_ffi_softcap_backward(void *self, const Any *a, int32_t n, Any *result) {
  const float *y = data(a + 1), *dy = data(a + 2);
  float *dx = data(a + 3);
  double cap = a[0].value.real;
  for (int64_t i = 0, all = count(a + 1); i < all; i++) dx[i] = dy[i] * (1 - (y[i] / cap) * (y[i] / cap));
  return 0;
}

/* x, weight, bias, eps, y, mean, rstd */
int __tvm_ffi_layer_norm(void *self, const Any *a, int32_t n, Any *result) {
  if (n != 7) return fail("layer_norm takes 7 arguments");
  int64_t size = width(a), rows = count(a) / size;
  const float *x = data(a), *w = data(a + 1), *b = data(a + 2);
  float *y = data(a + 4), *mean = data(a + 5), *rstd = data(a + 6);
  for (int64_t r = 0; r < rows; r++, x += size, y += size) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < size; i++) sum += x[i];
    mean[r] = sum / size;
    for (int64_t i = 0; i < size; i++) squares += pow(x[i] - sum / size, 2);
    rstd[r] = 1 / sqrt(squares / size + a[3].value.real);
    for (int64_t i = 0; i < size; i++) y[i] = (x[i] - sum / size) * rstd[r] * w[i] + b[i];
  }
  return 0;
}
