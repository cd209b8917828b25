//! The packages of the tests, registered before anything else.

use crate::support::{KERNELS, compile, here, metadata, write_files};
use kernels_packages::{Loaded, Metadata, Package, Trust};
use kernels_runtime::packages::{Registered, register};
use kernels_runtime::semantics::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Compiles and loads a package with these bindings. Returns `None`, and says so, if there is no compiler.
pub fn package(name: &str, version: u64, bindings: &[Value], options: &[&str]) -> Option<Loaded> {
    let source = format!("{KERNELS}\n{}", include_str!("kernels.c"));
    let library = compile(&source, &[options, &["-lm"]].concat())?;
    let bindings = json!({ "format": 1, "bindings": bindings }).to_string();
    let files = [
        ("_k.so", library.as_slice()),
        ("burn-kernels.json", bindings.as_bytes()),
    ];
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("build").join(here().to_string());
    write_files(&folder, &files);
    let metadata = Metadata {
        name: name.into(),
        version,
        ..metadata(&files)
    };
    std::fs::write(folder.join("metadata.json"), metadata.to_json()).expect("a file");
    let package = Package::open(place.path(), &here()).expect("a package");
    // SAFETY: the package is one of these tests, and its bindings name the arguments of its functions.
    Some(unsafe { package.load(Trust::Folder) }.expect("a loaded package"))
}

fn binding(symbol: &str, key: impl Into<SemanticsKey>, arguments: Value, backward: Value) -> Value {
    json!({
        "symbol": symbol,
        "semantics": serde_json::to_value(key.into()).expect("a key"),
        "dtypes": ["f32"],
        "arguments": arguments,
        "backward": backward,
    })
}

/// Returns the binding of the norm, whose gradient is its own or that of the reference.
pub fn norm(own_gradient: bool) -> Value {
    let forward = json!([
        { "tensor": "x" }, { "tensor": "weight" }, { "number": "eps" }, { "result": "y" }, { "saved": "rstd" },
    ]);
    let backward = json!({ "symbol": "rms_norm_backward", "arguments": [
        { "tensor": "x" }, { "tensor": "weight" }, { "saved": "rstd" }, { "gradient": "y" },
        { "gradient_of": "x" }, { "gradient_of": "weight" },
    ]});
    let backward = match own_gradient {
        true => backward,
        false => "reference".into(),
    };
    binding("rms_norm", RmsNormKey::LLAMA, forward, backward)
}

fn others() -> [Value; 3] {
    let capped = json!([{ "tensor": "x" }, { "number": "cap" }, { "result": "y" }]);
    let slope = json!({ "symbol": "softcap_backward", "arguments": [
        { "number": "cap" }, { "result": "y" }, { "gradient": "y" }, { "gradient_of": "x" },
    ]});
    let gated = json!([{ "tensor": "first" }, { "tensor": "up" }, { "result": "y" }]);
    let normed = json!([
        { "tensor": "x" }, { "tensor": "weight" }, { "tensor": "bias" }, { "number": "eps" }, { "result": "y" },
        { "saved": "mean" }, { "saved": "rstd" },
    ]);
    [
        binding("swiglu", GluKey::SWIGLU, gated, "reference".into()),
        binding("softcap", SoftcapKey {}, capped, slope),
        binding("layer_norm", LayerNormKey::GPT2, normed, "reference".into()),
    ]
}

/// Returns the registered functions. Every test asks for them before it does anything else.
pub fn registered() -> Option<&'static [Registered]> {
    static REGISTERED: OnceLock<Option<Vec<Registered>>> = OnceLock::new();
    REGISTERED.get_or_init(register_all).as_deref()
}

fn register_all() -> Option<Vec<Registered>> {
    let second = [&[norm(false)][..], &others()].concat();
    let mut all = Vec::new();
    for (name, version, bindings, options) in [
        ("right-kernels", 1, &[norm(true)][..], &[] as &[&str]),
        ("right-kernels", 2, &second, &[]),
        ("wrong-kernels", 1, &[norm(false)], &["-DFACTOR=1.01f"]),
        ("wrong-slopes", 1, &[norm(true)], &["-DSLOPE=1.01"]),
        ("lazy-kernels", 1, &[norm(true)], &["-DLEFT_OUT=1"]),
    ] {
        let package = package(name, version, bindings, options)?;
        all.extend(register(&package).expect("registered"));
    }
    refusals()?;
    Some(all)
}

/// Checks what is refused. Nothing of it is registered, and it is not too late yet.
fn refusals() -> Option<()> {
    let with = |change: fn(&mut Value)| {
        let mut binding = norm(true);
        change(&mut binding);
        binding
    };
    for (name, version, bindings, says) in [
        (
            "right-kernels",
            1,
            vec![norm(true)],
            "`right-kernels@1` is registered already",
        ),
        (
            "odd-kernels",
            1,
            vec![],
            "it binds no function to an operation",
        ),
        (
            "odd-kernels",
            5_000_000_000,
            vec![norm(true)],
            "the version 5000000000 is too large",
        ),
        (
            "odd-kernels",
            1,
            vec![
                norm(true),
                with(|binding| binding["semantics"] = json!({ "op": "rope" })),
            ],
            "`rms_norm`: functions of packages can't compute the operation `rope`; they can compute \
            rms_norm, layer_norm, glu, \
             softcap",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| binding["semantics"]["tilt"] = "left".into())],
            "this release does not know the semantics",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| {
                binding["arguments"][2] = json!({ "number": "epsilon" })
            })],
            "the arguments of `rms_norm`: unknown number of rms_norm `epsilon`",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| {
                binding["arguments"][3] = json!({ "constant": null });
                // A backward function would need the result.
                binding["backward"] = "reference".into();
            })],
            "`rms_norm` has no argument for the result `y`",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| {
                binding["backward"]["arguments"][5] = json!({ "constant": null })
            })],
            "`rms_norm_backward` has no argument for the gradient of `weight`",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| {
                binding["semantics"]["shift"] = "bias".into()
            })],
            "`rms_norm` has no argument for the tensor `bias` of rms_norm(offset=0, rounding=llama, shift=bias)",
        ),
        (
            "odd-kernels",
            1,
            vec![with(|binding| {
                binding["arguments"][2] = json!({ "constant": 1e-6 })
            })],
            "`rms_norm` has no argument for the number `eps` of rms_norm(offset=0, rounding=llama)",
        ),
    ] {
        let error = register(&package(name, version, &bindings, &[])?);
        let error = error.expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
        assert!(
            error.starts_with(&format!("{name} v{version} (")),
            "{error}"
        );
    }
    Some(())
}
