//! The names of variants, and which one is taken.

use crate::support::{ByHand, fails, here, write};
use kernels_packages::{Backend, Package, Variant, decide, variants};

#[test]
fn a_variant_is_its_name() {
    for (name, abi, backend) in [
        ("tvm-ffi01-cpu-x86_64-linux", (0, 1), Backend::Cpu),
        ("tvm-ffi10-cpu-aarch64-darwin", (1, 0), Backend::Cpu),
        ("tvm-ffi012-cpu-x86_64-windows", (0, 12), Backend::Cpu),
        (
            "tvm-ffi01-cann85-aarch64-linux",
            (0, 1),
            Backend::Cann { major: 8, minor: 5 },
        ),
        // As Python reads it: the last digit is the minor version.
        (
            "tvm-ffi01-cann810-aarch64-linux",
            (0, 1),
            Backend::Cann {
                major: 81,
                minor: 0,
            },
        ),
    ] {
        let variant = Variant::parse(name).expect(name);
        assert_eq!((variant.abi, variant.backend), (abi, backend), "{name}");
        assert_eq!(variant.to_string(), name);
    }
}

#[test]
fn each_other_one_has_its_reason() {
    let wanted = Variant {
        cpu: "x86_64".into(),
        os: "linux".into(),
        ..here()
    };
    let cases = [
        ("torch-universal", "PyTorch"),
        ("torch-cpu", "PyTorch"),
        ("torch-npu", "PyTorch"),
        ("torch210-cxx11-cann85-aarch64-linux", "PyTorch"),
        ("torch-stable-abi29-cu132-x86_64-linux", "PyTorch"),
        (
            "tvm-ffi01-cu132-x86_64-linux",
            "the backend `cu132`, whose kernels",
        ),
        (
            "tvm-ffi01-rocm71-x86_64-linux",
            "the backend `rocm71`, whose kernels",
        ),
        (
            "tvm-ffi01-metal-aarch64-darwin",
            "the backend `metal`, whose kernels",
        ),
        (
            "tvm-ffi01-cann85-x86_64-linux",
            "the backend `cann85`, and not `cpu`",
        ),
        (
            "tvm-ffi01-cpu-aarch64-linux",
            "processors of aarch64, and not x86_64",
        ),
        ("tvm-ffi01-cpu-x86_64-darwin", "for darwin, and not linux"),
        ("tvm-ffi02-cpu-x86_64-linux", "TVM-FFI 0.2"),
        (
            "tvm-ffi001-cpu-x86_64-linux",
            "the usual spelling of this variant is `tvm-ffi01-",
        ),
        ("tvm-ffi01-cann-x86_64-linux", "not the name of a version"),
        ("tvm-ffi01-cann5-x86_64-linux", "not the name of a version"),
        ("tvm-ffi01-gpu-x86_64-linux", "not the name of a backend"),
        ("tvm-ffi01-cpu-x86_64", "not the name of a variant"),
        ("tvm-ffi1-cpu-x86_64-linux", "not the name of a variant"),
        ("src", "not the name of a variant"),
        ("", "not the name of a variant"),
    ];
    let right = "tvm-ffi01-cpu-x86_64-linux";
    let names = cases.iter().map(|(name, _)| *name).chain([right]);
    let decisions = decide(names, &wanted);
    assert_eq!(decisions[0].0.name, right);
    assert_eq!(decisions[0].0.against, None);
    for (name, reason) in cases {
        let found = decisions
            .iter()
            .find(|(decision, _)| decision.name == name)
            .expect(name);
        assert!(found.1.is_none(), "{name}");
        let against = found.0.against.as_deref().expect(name);
        assert!(against.contains(reason), "{name}: {against}");
    }
}

#[test]
fn the_folder_may_be_the_package_its_build_or_the_variant() {
    let place = tempfile::tempdir().expect("a folder");
    let library = ByHand::default().bytes();
    let files: &[(&str, &[u8])] = &[("_k.so", &library)];
    let name = here().to_string();
    let build = place.path().join("build");
    write(&build, "torch-universal", files);
    let error = Package::open(place.path(), &here());
    fails(error, "no variant of the package runs here");
    let folder = write(&build, &name, files);
    for path in [place.path(), &build, &folder] {
        let package = Package::open(path, &here()).expect("a package");
        assert_eq!(package.variant(), &here());
        assert_eq!(package.functions().collect::<Vec<_>>(), ["f"]);
    }
    let other = Variant {
        backend: Backend::Cann { major: 8, minor: 5 },
        ..here()
    };
    for (path, says) in [
        (place.path(), "torch-universal: it is for PyTorch"),
        (&folder, "`cpu`, and not `cann85`"),
    ] {
        fails(Package::open(path, &other), says);
    }
    // Of one variant in two places, the first is meant.
    write(place.path(), &name, files);
    let listed = variants(place.path(), &here()).expect("variants");
    let listed: Vec<_> = listed.iter().map(|one| &*one.name).collect();
    assert_eq!(listed, [&*name, "torch-universal"]);
    let empty = tempfile::tempdir().expect("a folder");
    assert_eq!(variants(empty.path(), &here()).expect("none"), []);
    fails(Package::open(empty.path(), &here()), "it has none");
    fails(
        Package::open(&empty.path().join("none"), &here()),
        "it has none",
    );
}
