#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { int32_t type; uint32_t zero; union { int64_t integer; double real; void *pointer; const char *text; } value; } Any;
typedef struct {
  void *data; int32_t device[2]; int32_t axes; uint8_t code, bits; uint16_t lanes;
  int64_t *shape, *strides; uint64_t offset;
} Tensor;

#ifdef MARK
__attribute__((constructor)) static void ran(void) {
  FILE *file = fopen(MARK, "a");
  if (file) { fputs("ran\n", file); fclose(file); }
}
#endif

static _Thread_local char message[200];
#ifdef RUNTIME
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
static int fail(const char *text) { TVMFFIErrorSetRaisedFromCStr("ValueError", text); return -1; }
#else
const char *burn_kernels_error(void) { return message; }
static int fail(const char *text) { snprintf(message, sizeof message, "%s", text); return -1; }
#endif

static int of_f32(const Any *any) {
  const Tensor *t = any->value.pointer;
  return any->type == 7 && t->device[0] == 1 && t->code == 2 && t->bits == 32 && t->lanes == 1 && t->strides;
}

/* y = factor * x, of two axes at any strides */
int __tvm_ffi_scale(void *self, const Any *a, int32_t count, Any *result) {
  if (self || count != 3) return fail("scale takes 3 arguments");
  if (!of_f32(a) || !of_f32(a + 1) || a[2].type != 3) return fail("scale takes tensors in f32 and a float");
  const Tensor *x = a[0].value.pointer, *y = a[1].value.pointer;
  if (x->axes != 2 || y->axes != 2 || x->shape[0] != y->shape[0] || x->shape[1] != y->shape[1])
    return fail("the shapes differ");
  for (int64_t i = 0; i < x->shape[0]; i++)
    for (int64_t j = 0; j < x->shape[1]; j++)
      ((float *)y->data)[i * y->strides[0] + j * y->strides[1]] =
          a[2].value.real * ((float *)x->data)[i * x->strides[0] + j * x->strides[1]];
  return 0;
}

/* the bytes of a tensor, by code and bits */
int __tvm_ffi_kind(void *self, const Any *a, int32_t count, Any *result) {
  if (count != 1 || a->type != 7) return fail("kind takes a tensor");
  const Tensor *t = a->value.pointer;
  result->type = 1;
  result->value.integer = t->code * 1000 + t->bits;
  return 0;
}

/* all other arguments; returns a bool */
int __tvm_ffi_plain(void *self, const Any *a, int32_t count, Any *result) {
  if (count != 5) return fail("plain takes 5 arguments");
  result->type = 2;
  result->value.integer = a[0].type == 0 && a[1].type == 1 && a[1].value.integer == -3 && a[2].type == 2 &&
      a[2].value.integer == 1 && a[3].type == 8 && !strcmp(a[3].value.text, "text") && a[4].type == 4 &&
      a[4].value.pointer == &__tvm_ffi_plain;
  return 0;
}

int __tvm_ffi_half(void *self, const Any *a, int32_t count, Any *result) {
  result->type = 3;
  result->value.real = 0.5;
  return 0;
}

int __tvm_ffi_harm(void *self, const Any *a, int32_t count, Any *result) { return fail("no\x1b[2J\n\xff"); }

int __tvm_ffi_silent(void *self, const Any *a, int32_t count, Any *result) { message[0] = 0; return -7; }
