//! `libtvm_ffi.so`, in a process of its own: it is opened once. A library in C stands in for it.

#[path = "support/mod.rs"]
mod support;

use kernels_packages::{Argument, Device, Trust, on_stream, open_runtime};
use std::ffi::c_void;
use std::fs;
use support::{KERNELS, compile, fails, open, package};

/// The functions that a host needs, with the layouts of TVM-FFI's header.
const RUNTIME: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { uint64_t refs; int32_t type; uint32_t pad; void *deleter; struct { const char *data; size_t size; } kind, message; } Error;
static _Thread_local Error *raised;
static _Thread_local void *stream;
static int alive;
void TVMFFIGetVersion(uint32_t *version) { version[0] = 0; version[1] = MINOR; version[2] = 16; }
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  raised = calloc(1, sizeof *raised);
  raised->refs = 1; raised->type = 67;
  raised->kind.data = strdup(kind); raised->kind.size = strlen(kind);
  raised->message.data = strdup(message); raised->message.size = strlen(message);
  alive++;
}
void TVMFFIErrorMoveFromRaised(void **error) { *error = raised; raised = 0; }
int TVMFFIObjectDecRef(void *object) { free(object); alive--; return 0; }
int TVMFFIEnvSetStream(int32_t kind, int32_t number, void *next, void **before) {
  if (kind != 12 || number != 3) return -1;
  *before = stream; stream = next; return 0;
}
void *TVMFFIEnvGetStream(int32_t kind, int32_t number) { return stream; }
int alive_objects(void) { return alive; }
"#;

const ASKING: &str = r#"
void *TVMFFIEnvGetStream(int32_t kind, int32_t number);
int alive_objects(void);
int __tvm_ffi_stream(void *self, const Any *a, int32_t count, Any *r) { r->type = 1; r->value.integer = (int64_t)TVMFFIEnvGetStream(12, 3); return 0; }
int __tvm_ffi_alive(void *self, const Any *a, int32_t count, Any *r) { r->type = 1; r->value.integer = alive_objects(); return 0; }
int __tvm_ffi_object(void *self, const Any *a, int32_t count, Any *r) {
  TVMFFIErrorSetRaisedFromCStr("Kind", "an object");
  void TVMFFIErrorMoveFromRaised(void **error);
  r->type = 67; TVMFFIErrorMoveFromRaised(&r->value.pointer); return 0;
}
"#;

#[test]
fn kernels_get_the_one_library_of_their_version() {
    let place = tempfile::tempdir().expect("a folder");
    let Some(other) = compile(RUNTIME, &["-DMINOR=2", "-Wl,-soname,libtvm_ffi_other.so"]) else {
        return;
    };
    let runtime = compile(RUNTIME, &["-DMINOR=1", "-Wl,-soname,libtvm_ffi.so"]).expect("a library");
    let path = |name: &str| place.path().join(name);
    fs::write(path("other.so"), other).expect("a file");
    fs::write(path("libtvm_ffi.so"), runtime).expect("a file");
    let folder = format!("-L{}", place.path().display());
    let options = ["-DRUNTIME", &folder, "-ltvm_ffi", "-Wno-nested-externs"];
    let kernels = compile(&format!("{KERNELS}{ASKING}"), &options).expect("a library");
    let package = open(&package(&[("_k.so", &kernels)])).expect("a package");
    // SAFETY: the libraries are those of this test.
    unsafe {
        // If this machine has the library, it would be found.
        if std::env::var_os("KERNELS_TVM_FFI").is_none() {
            fails(
                package.load(Trust::Folder),
                "the package needs libtvm_ffi.so",
            );
        }
        fails(open_runtime(&path("none.so")), "none.so");
        fails(
            open_runtime(&path("other.so")),
            "this is TVM-FFI 0.2, and the interface of 0.1 is supported",
        );
        open_runtime(&path("libtvm_ffi.so")).expect("the library");
        fails(open_runtime(&path("libtvm_ffi.so")), "is open already");
    }
    // SAFETY: the package is that of this test.
    let loaded = unsafe { package.load(Trust::Folder) }.expect("a loaded package");
    let call = |name: &str| {
        let function = loaded.function(name).expect("a function");
        // SAFETY: the functions check what they get.
        unsafe { function.call(&[]) }
    };
    fails(call("scale"), "): ValueError: scale takes 3 arguments");
    fails(call("harm"), "): ValueError: no\\u{1b}[2J");
    assert_eq!(
        format!("{:?}", call("object").expect("a result")),
        "Other(67)"
    );
    assert_eq!(
        format!("{:?}", call("alive").expect("a result")),
        "Int(0)",
        "errors and results are released"
    );

    let stream = 0x40 as *mut c_void;
    let found = || format!("{:?}", call("stream").expect("a result"));
    // SAFETY: the stand-in keeps the number alone.
    let inside = unsafe { on_stream(Device::Npu(3), stream, found) }.expect("a stream");
    assert_eq!((inside.as_str(), found().as_str()), ("Int(64)", "Int(0)"));
    // SAFETY: as above.
    fails(
        unsafe { on_stream(Device::Npu(4), stream, found) },
        "can't set the stream",
    );
    let argument = [Argument::Pointer(stream)];
    // SAFETY: `scale` checks what it gets.
    fails(
        unsafe {
            loaded
                .function("scale")
                .expect("a function")
                .call(&argument)
        },
        "scale takes 3 arguments",
    );
}
