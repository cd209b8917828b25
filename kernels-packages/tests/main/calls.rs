//! Loading and calling, of libraries in C.

use crate::support::{ByHand, KERNELS, compile, fails, here, open, package};
use kernels_packages::{Argument, Loaded, Lock, Package, Repository, Returned, Tensor, Trust};
use std::ffi::c_void;
use std::fs;

fn load(package: &Package) -> Loaded {
    // SAFETY: the package is one of these tests.
    unsafe { package.load(Trust::Folder) }.expect("a loaded package")
}

fn kernels() -> Option<Loaded> {
    let library = compile(KERNELS, &[])?;
    Some(load(
        &open(&package(&[("_k.so", &library)])).expect("a package"),
    ))
}

#[test]
fn functions_compute_in_the_memory_of_the_caller() {
    let Some(kernels) = kernels() else { return };
    let scale = kernels.function("scale").expect("a function");
    let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let mut y = [9.0_f32; 6];
    {
        // The second and third column of rows of four.
        let x = Tensor::strided(&x[1..], &[3, 2], &[4, 1]).expect("a tensor");
        let y = Tensor::new_mut(&mut y, &[3, 2]).expect("a tensor");
        let arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&y),
            Argument::Float(2.0),
        ];
        // SAFETY: `scale` takes two tensors of one shape and a float.
        let result = unsafe { scale.call(&arguments) };
        assert_eq!(result.expect("a result"), Returned::Nothing);
    }
    assert_eq!(y, [2.0, 4.0, 10.0, 12.0, 18.0, 20.0]);
    let [x, mut y] = [[0.0_f32; 0]; 2];
    let (x, y) = (
        Tensor::new(&x, &[0, 7]).expect("a tensor"),
        Tensor::new_mut(&mut y, &[0, 7]).expect("a tensor"),
    );
    // SAFETY: as above.
    unsafe {
        scale.call(&[
            Argument::Tensor(&x),
            Argument::Tensor(&y),
            Argument::Float(2.0),
        ])
    }
    .expect("a result");
}

#[test]
fn every_type_arrives() {
    let Some(kernels) = kernels() else { return };
    let [kind, plain, half] =
        ["kind", "plain", "half"].map(|name| kernels.function(name).expect("a function"));
    let [f32, f64] = [&[0.0_f32][..], &[]].map(|x| x.to_vec());
    let f64: Vec<f64> = f64.into_iter().map(f64::from).collect();
    let halves = ([half::bf16::ONE], [half::f16::ONE]);
    let tensors = [
        (Tensor::new(&f32, &[1]), 2032),
        (Tensor::new(&f64, &[0]), 2064),
        (Tensor::new(&halves.0, &[]), 4016),
        (Tensor::new(&halves.1, &[1, 1]), 2016),
        (Tensor::new(&[1_i32], &[1]), 32),
        (Tensor::new(&[1_i64], &[1]), 64),
        (Tensor::new(&[1_u8], &[1]), 1008),
        (Tensor::new(&[true], &[1]), 6008),
    ];
    for (tensor, code) in tensors {
        let tensor = tensor.expect("a tensor");
        // SAFETY: `kind` takes a tensor and does not touch its memory.
        let result = unsafe { kind.call(&[Argument::Tensor(&tensor)]) };
        assert_eq!(result.expect("a result"), Returned::Int(code));
    }
    // `plain` compares the pointer with its own address, which only its library knows.
    let arguments = |pointer: *mut c_void| {
        [
            Argument::Null,
            Argument::Int(-3),
            Argument::Bool(true),
            Argument::Text(c"text"),
            Argument::Pointer(pointer),
        ]
    };
    // SAFETY: both functions read the values alone.
    unsafe {
        assert_eq!(
            plain
                .call(&arguments(std::ptr::null_mut()))
                .expect("a result"),
            Returned::Bool(false)
        );
        assert_eq!(half.call(&[]).expect("a result"), Returned::Float(0.5));
    }
}

#[test]
fn failures_are_errors_with_their_messages() {
    let Some(kernels) = kernels() else { return };
    let function = |name: &str| kernels.function(name).expect("a function");
    let (x, mut y) = ([1.0_f32; 6], [0.0_f32; 6]);
    let (x, y) = (
        Tensor::new(&x, &[3, 2]).expect("a tensor"),
        Tensor::new_mut(&mut y, &[2, 3]).expect("a tensor"),
    );
    // SAFETY: the functions check what they get.
    unsafe {
        let scale = function("scale");
        fails(scale.call(&[]), "scale takes 3 arguments");
        fails(
            scale.call(&[Argument::Null; 3]),
            "scale takes tensors in f32 and a float",
        );
        let arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&y),
            Argument::Float(2.0),
        ];
        fails(scale.call(&arguments), "the shapes differ");
        let more = [Argument::Tensor(&x); 40];
        fails(scale.call(&more), "scale takes 3 arguments");
        fails(function("harm").call(&[]), "harm of test-kernels v1 (");
        fails(function("harm").call(&[]), "): no\\u{1b}[2J\\n\u{fffd}");
        fails(function("silent").call(&[]), "failed with code -7");
    }
    fails(
        kernels.function("absent"),
        "the package has no function `absent`",
    );
    fails(
        kernels.function("scale\0"),
        "the package has no function `scale\\0`",
    );
}

#[test]
fn tensors_lie_in_their_slices() {
    let x = [0.0_f32; 6];
    for shape in [&[7][..], &[2, 2], &[usize::MAX, 2], &[]] {
        fails(Tensor::new(&x, shape), "are not a tensor of shape");
    }
    for (shape, strides) in [
        (&[3, 2][..], &[3, 1][..]),
        (&[2], &[6]),
        (&[2, 1], &[1]),
        (&[2], &[usize::MAX]),
    ] {
        fails(
            Tensor::strided(&x, shape, strides),
            "does not lie in 6 elements",
        );
    }
    for (shape, strides) in [
        (&[3, 2][..], &[2, 1][..]),
        (&[2, 3], &[0, 0]),
        (&[0], &[99]),
        (&[1], &[usize::MAX]),
    ] {
        Tensor::strided(&x, shape, strides).expect("a tensor");
    }
}

/// A library whose constructor writes the file.
fn marking(mark: &std::path::Path, options: &[&str]) -> Option<Vec<u8>> {
    let define = format!("-DMARK=\"{}\"", mark.display());
    compile(KERNELS, &[&[define.as_str()], options].concat())
}

#[test]
fn nothing_runs_before_all_checks() {
    let place = tempfile::tempdir().expect("a folder");
    let mark = place.path().join("mark");
    let Some(library) = marking(&mark, &[]) else {
        return;
    };
    let Some(searching) = marking(&mark, &["-Wl,-rpath,/tmp"]) else {
        return;
    };
    let Some(needing) = marking(&mark, &["-Wl,--no-as-needed", "-lresolv"]) else {
        return;
    };
    fails(open(&package(&[("_k.so", &searching)])), "RPATH");
    fails(
        open(&package(&[("_k.so", &needing)])),
        "needs `libresolv.so.2`",
    );

    let place = package(&[("_k.so", &library)]);
    let file = place
        .path()
        .join("build")
        .join(here().to_string())
        .join("_k.so");
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = library.clone();
        change(&mut bytes);
        fs::write(&file, bytes).expect("a file");
        open(&place)
    };
    fails(
        changed(|bytes| *bytes.last_mut().expect("bytes") ^= 1),
        "_k.so is not the file whose digest",
    );
    fails(
        changed(|bytes| bytes.truncate(bytes.len() / 2)),
        "_k.so is not the file whose digest",
    );

    let whole = changed(|_| {}).expect("a package");
    let repository = Repository::parse("a/b").expect("a repository");
    // SAFETY: nothing is loaded.
    unsafe {
        fails(
            whole.load(Trust::Lock(&Lock::default())),
            "the lock does not have this package",
        );
        fails(
            whole.load(Trust::Repository(&repository)),
            "the trust is in a/b",
        );
    }
    assert!(!mark.exists(), "a constructor ran");
    // What was read is what runs, whatever the file is by now.
    fs::write(&file, b"something else").expect("a file");
    let loaded = load(&whole);
    assert_eq!(fs::read_to_string(&mark).expect("the mark"), "ran\n");
    loaded.function("scale").expect("a function");
    // The same bytes are one library.
    load(&whole);
    assert_eq!(fs::read_to_string(&mark).expect("the mark"), "ran\n");
}

#[test]
fn two_versions_are_side_by_side() {
    let source = |number: u32| {
        format!(
            "{KERNELS}\nint __tvm_ffi_version(void *s, const Any *a, int32_t c, Any *r) {{ r->type = 1; r->value.integer = {number}; return 0; }}"
        )
    };
    let mut versions = Vec::new();
    for number in [1, 2] {
        let Some(library) = compile(&source(number), &["-Wl,-soname,_k.so"]) else {
            return;
        };
        versions.push(load(
            &open(&package(&[("_k.so", &library)])).expect("a package"),
        ));
    }
    for (loaded, number) in versions.iter().zip([1, 2]) {
        let version = loaded.function("version").expect("a function");
        // SAFETY: `version` takes nothing.
        let result = unsafe { version.call(&[]) };
        assert_eq!(result.expect("a result"), Returned::Int(number));
    }
    assert_ne!(versions[0].name(), versions[1].name());
}

#[test]
fn a_library_that_the_system_refuses_is_an_error() {
    let source = format!(
        "{KERNELS}\nint nobody_has_this(void); int use(void) {{ return nobody_has_this(); }}"
    );
    if let Some(library) = compile(&source, &[]) {
        let package = open(&package(&[("_k.so", &library)])).expect("a package");
        // SAFETY: the library is one of these tests.
        fails(unsafe { package.load(Trust::Folder) }, "nobody_has_this");
    }
    if cfg!(target_os = "linux") {
        let package = open(&package(&[(
            "_k.so",
            &ByHand {
                needed: &["libdl.so.99"],
                ..ByHand::default()
            }
            .bytes(),
        )]));
        // SAFETY: the library has no code.
        fails(
            unsafe { package.expect("a package").load(Trust::Folder) },
            "_k.so: ",
        );
    }
}

#[test]
fn bound_functions_are_ready_to_call() {
    let Some(library) = compile(KERNELS, &[]) else {
        return;
    };
    let json = br#"{"format": 1, "bindings": [{"symbol": "scale", "semantics": {"op": "scale"}, "dtypes": ["f32"],
        "arguments": [{"tensor": "x"}, {"result": "y"}, {"number": "factor"}],
        "backward": {"symbol": "scale", "arguments": [{"gradient": "y"}, {"gradient_of": "x"}, {"number": "factor"}]}}]}"#;
    let loaded = load(
        &open(&package(&[
            ("_k.so", &library),
            ("burn-kernels.json", json),
        ]))
        .expect("a package"),
    );
    let [bound] = loaded.bound() else {
        panic!("{loaded:?}")
    };
    assert_eq!(bound.binding.operation, "scale");
    let (x, mut y) = ([3.0_f32], [0.0_f32]);
    for callable in [Some(bound.forward), bound.backward].into_iter().flatten() {
        y = [0.0];
        let (x, y) = (
            Tensor::new(&x, &[1, 1]).expect("a tensor"),
            Tensor::new_mut(&mut y, &[1, 1]).expect("a tensor"),
        );
        let arguments = [
            Argument::Tensor(&x),
            Argument::Tensor(&y),
            Argument::Float(2.0),
        ];
        // SAFETY: `scale` takes two tensors of one shape and a float.
        unsafe { callable.function.call(&arguments) }.expect("a result");
    }
    assert_eq!(y, [6.0]);
}
