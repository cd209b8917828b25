//! Headers of libraries.

use crate::support::{ByHand, Random, fails, here, open, package, write_files};
use kernels_packages::{Backend, Error, Package, Variant};

fn opened(library: &[u8]) -> Result<Package, Error> {
    open(&package(&[("_k.so", library)]))
}

#[test]
fn libraries_that_others_build_are_accepted() {
    let library = ByHand {
        needed: &[
            "libm.so.6",
            "libstdc++.so.6",
            "libgcc_s.so.1",
            "libc.so.6",
            "libtvm_ffi.so",
            "ld-linux-x86-64.so.2",
        ],
        soname: Some("_k.abi3.so"),
        functions: &["relu", "gelu", "_metadata_relu"],
        ..ByHand::default()
    };
    let package = opened(&library.bytes()).expect("a package");
    assert_eq!(package.functions().collect::<Vec<_>>(), ["gelu", "relu"]);
    let none = ByHand {
        functions: &[],
        ..ByHand::default()
    };
    assert_eq!(
        opened(&none.bytes())
            .expect("a package")
            .functions()
            .count(),
        0
    );
}

#[test]
fn what_brings_code_from_elsewhere_is_refused() {
    let cases = [
        (
            ByHand {
                needed: &["libcuda.so.1"],
                ..ByHand::default()
            },
            "needs `libcuda.so.1`",
        ),
        (
            ByHand {
                needed: &["/tmp/libc.so.6"],
                ..ByHand::default()
            },
            "needs `/tmp/libc.so.6`",
        ),
        (
            ByHand {
                needed: &["libc.so.evil"],
                ..ByHand::default()
            },
            "needs `libc.so.evil`",
        ),
        (
            ByHand {
                needed: &["libascendcl.so"],
                ..ByHand::default()
            },
            "needs `libascendcl.so`",
        ),
        (
            ByHand {
                needed: &["lib\x1b[2J"],
                ..ByHand::default()
            },
            "needs `lib\\u{1b}[2J`",
        ),
        (
            ByHand {
                soname: Some("libm.so.6"),
                ..ByHand::default()
            },
            "calls itself `libm.so.6`",
        ),
        (
            ByHand {
                entries: &[(15, 0)],
                ..ByHand::default()
            },
            "RPATH",
        ),
        (
            ByHand {
                entries: &[(29, 0)],
                ..ByHand::default()
            },
            "RUNPATH",
        ),
        (
            ByHand {
                entries: &[(0x7fff_fffd, 0)],
                ..ByHand::default()
            },
            "a library that it filters",
        ),
        (
            ByHand {
                entries: &[(0x7fff_ffff, 0)],
                ..ByHand::default()
            },
            "a library that it filters",
        ),
        (
            ByHand {
                entries: &[(0x6fff_fefc, 0)],
                ..ByHand::default()
            },
            "a library that audits",
        ),
        (
            ByHand {
                entries: &[(0x6fff_fffb, 0x0800_0000)],
                ..ByHand::default()
            },
            "is a program",
        ),
        (
            ByHand {
                entries: &[(1, 1 << 40)],
                ..ByHand::default()
            },
            "a name that can't be read",
        ),
        (
            ByHand {
                entries: &[(5, 1 << 40)],
                ..ByHand::default()
            },
            "an address outside",
        ),
        (
            ByHand {
                entries: &[(10, 1 << 40)],
                ..ByHand::default()
            },
            "the table of names is cut off",
        ),
        (
            ByHand {
                machine: 8,
                ..ByHand::default()
            },
            "the machine 8 of ELF",
        ),
        (
            ByHand {
                kind: 2,
                ..ByHand::default()
            },
            "must be a shared library",
        ),
        (
            ByHand {
                segment: 5,
                ..ByHand::default()
            },
            "memory that can be written",
        ),
        (
            ByHand {
                stack: 7,
                ..ByHand::default()
            },
            "a stack that can be executed",
        ),
    ];
    for (library, says) in cases {
        fails(opened(&library.bytes()), says);
    }
    let library = ByHand::default().bytes();
    let mut small = library.clone();
    small[4] = 1;
    fails(opened(&small), "64 bits");
    // 65535 program headers, which stands for the number in section 0.
    let mut many = library.clone();
    many[56..58].copy_from_slice(&[0xff; 2]);
    fails(opened(&many), "the library has 65535 program headers");
    // The third program header as one that the dynamic linker ignores.
    let mut silent = library.clone();
    silent[64 + 2 * 56..][..4].fill(0);
    fails(
        opened(&silent),
        "its stack is not executable (PT_GNU_STACK)",
    );
    // The third program header as a segment of 16 bytes at the address 0.
    let mut overlapping = library.clone();
    let third = 64 + 2 * 56;
    overlapping[third..third + 4].copy_from_slice(&1_u32.to_le_bytes());
    overlapping[third + 40] = 16;
    fails(opened(&overlapping), "the segments of the library overlap");
    for size in [0, 5, 63, 64, 200, library.len() - 1] {
        opened(&library[..size]).expect_err("a library that is cut off");
    }
}

#[test]
fn kernels_for_npus_may_need_cann() {
    let place = tempfile::tempdir().expect("a folder");
    let library = ByHand {
        needed: &["libascendcl.so", "libc.so.6"],
        ..ByHand::default()
    };
    let wanted = Variant {
        backend: Backend::Cann { major: 8, minor: 5 },
        ..here()
    };
    let folder = place.path().join(wanted.to_string());
    let bindings = r#"{"format": 1, "bindings": [{"symbol": "f", "semantics": {"op": "rms_norm"}, "dtypes": ["bf16"],
        "arguments": [{"tensor": "x"}, {"result": "y"}, {"stream": true}, {"workspace": true}],
        "workspace": {"bytes": 1024}, "backward": "reference"}]}"#;
    let metadata = r#"{"name": "npu-kernels", "id": "k", "version": 1, "license": "MIT", "python-depends": [],
        "backend": {"type": "cann", "archs": ["ascend910b"]}}"#;
    write_files(
        &folder,
        &[
            ("_k.so", &library.bytes()),
            ("burn-kernels.json", bindings.as_bytes()),
            ("metadata.json", metadata.as_bytes()),
        ],
    );
    let package = Package::open(place.path(), &wanted).expect("a package");
    assert_eq!(package.bindings().len(), 1);
    assert_eq!(
        package.metadata().backend.archs.as_deref(),
        Some(&["ascend910b".to_owned()][..])
    );
    fails(
        Package::open(place.path(), &here()),
        "the backend `cann85`, and not `cpu`",
    );
}

#[test]
fn mutated_libraries_never_panic() {
    let library = ByHand {
        needed: &["libc.so.6", "libm.so.6"],
        functions: &["one", "two"],
        ..ByHand::default()
    };
    let bytes = library.bytes();
    let mut random = Random(3);
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join(here().to_string());
    write_files(
        &folder,
        &[(
            "metadata.json",
            br#"{"name": "kk", "id": "k", "version": 1, "license": "MIT",
        "python-depends": [], "backend": {"type": "cpu"}}"#,
        )],
    );
    let mut accepted = 0;
    for _ in 0..3000 {
        write_files(&folder, &[("_k.so", &random.mutate(&bytes))]);
        match Package::open(place.path(), &here()) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(error.to_string().len() < 2000),
        }
    }
    assert!((10..2900).contains(&accepted), "{accepted}");
}
