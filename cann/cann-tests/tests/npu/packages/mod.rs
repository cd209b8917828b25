//! Functions of packages on NPUs, with the emulator: host functions in C, which the test compiles, put their work on a
//! stream through CANN.

mod others;
#[path = "../../../../../kernels-packages/tests/support/mod.rs"]
mod support;

use crate::npu::common::{Scenario, library_folder};
use crate::npu::noise;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::fused_kernel;
use kernels_packages::{Backend, BackendInfo, Loaded, Metadata, Package, Trust, Variant};
use kernels_runtime::dispatch::DeviceKind;
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::packages::register;
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::Gradient;
use kernels_runtime::report;
use kernels_runtime::semantics::{RmsNormKey, SemanticsKey};
use kernels_serving::npu;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{KERNELS, compile, metadata, write_files};

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct PackagedNorm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

const SITE: &str = "packages::PackagedNorm::forward";
const EPS: f64 = 1e-5;

fn binding() -> Value {
    let inputs = [
        json!({ "tensor": "x" }),
        json!({ "tensor": "weight" }),
        json!({ "number": "eps" }),
        json!({ "result": "y" }),
        json!({ "saved": "rstd" }),
    ];
    let handles = [json!({ "workspace": true }), json!({ "stream": true })];
    let of_gradients = [
        json!({ "tensor": "x" }),
        json!({ "tensor": "weight" }),
        json!({ "saved": "rstd" }),
        json!({ "gradient": "y" }),
        json!({ "gradient_of": "x" }),
        json!({ "gradient_of": "weight" }),
    ];
    json!({
        "symbol": "rms_norm",
        "semantics": serde_json::to_value(SemanticsKey::from(RmsNormKey::LLAMA)).unwrap(),
        "dtypes": ["f32"],
        "arguments": ([&inputs[..], &handles].concat()),
        "workspace": { "symbol": "rms_norm_room" },
        "backward": {
            "symbol": "rms_norm_backward",
            "arguments": ([&of_gradients[..], &handles].concat()),
            "workspace": { "bytes": 3 << 18 },
        },
    })
}

/// Compiles and loads a package for NPUs. Returns `None`, with a message, without a compiler.
fn package(name: &str, options: &[&str], bindings: &[Value]) -> Option<Loaded> {
    let source = format!("{KERNELS}\n{}", include_str!("kernels.c"));
    let folder = std::env::var("CANN_LIB_DIR").expect("a folder of CANN's libraries");
    let folder = format!("-L{folder}");
    let library = compile(&source, &[options, &[&folder, "-lopapi"]].concat())?;
    let bindings = json!({ "format": 1, "bindings": bindings }).to_string();
    let files = [
        ("_k.so", library.as_slice()),
        ("burn-kernels.json", bindings.as_bytes()),
    ];
    let variant = Variant::here(Backend::Cann { major: 8, minor: 5 });
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("build").join(variant.to_string());
    write_files(&folder, &files);
    let metadata = Metadata {
        name: name.into(),
        backend: BackendInfo {
            kind: "cann".into(),
            archs: None,
        },
        ..metadata(&files)
    };
    std::fs::write(folder.join("metadata.json"), metadata.to_json()).unwrap();
    let package = Package::open(place.path(), &variant).unwrap();
    // SAFETY: the package belongs to this test, and its bindings name the arguments of its functions.
    Some(unsafe { package.load(Trust::Folder) }.unwrap())
}

/// Runs a test in a process of its own, whose linker finds CANN's libraries, as after `source set_env.sh`.
fn alone(body: impl FnOnce()) {
    let scenario = Scenario::new().set("BURN_CANN_FALLBACK", "deny");
    let folder = library_folder();
    scenario
        .set("LD_LIBRARY_PATH", folder.display())
        .alone(body);
}

fn tensor<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let numbers = noise(shape.iter().product(), seed).into_iter();
    let numbers: Vec<f32> = numbers.map(|number| number as f32).collect();
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

fn norm(width: usize, device: &Device) -> PackagedNorm {
    let weight = tensor([width], 2, device);
    PackagedNorm {
        weight: Param::from_tensor(weight),
        eps: EPS,
    }
}

/// The result of a norm, and the gradients of its input and its weight.
type Computed = [Vec<f32>; 3];

/// Runs a norm on strided rows under a policy. Without a gradient of the weight, that is empty.
fn computed(policy: &str, device: &Device, trains_weight: bool) -> Computed {
    let _policy = policy::scope(policy.parse::<Policy>().unwrap());
    let wide = tensor([24, 9], 1, device).require_grad();
    let x = wide.clone().swap_dims(0, 1).narrow(0, 1, 7);
    let mut norm = norm(24, device);
    if !trains_weight {
        norm = norm.no_grad();
    }
    let y = norm.forward(x);
    let dy = tensor([7, 24], 3, device);
    let gradients = (y.clone() * dy).sum().backward();
    let values = |data: TensorData| data.try_into_vec::<f32>().unwrap();
    let of_weight = norm.weight.val().grad(&gradients);
    [
        values(y.into_data()),
        values(wide.grad(&gradients).unwrap().into_data()),
        of_weight.map_or_else(Vec::new, |gradient| values(gradient.into_data())),
    ]
}

#[track_caller]
fn same(found: &Computed, expected: &Computed) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // Sums of 24 numbers around 1 in another order.
            let near = (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(near, "{found} beside {expected}");
        }
    }
}

#[test]
fn functions_run_on_the_npus_of_this_process() {
    alone(|| {
        let Some(right) = package("npu-kernels", &[], &[binding()]) else {
            return;
        };
        let registered = register(&right).unwrap();
        assert_eq!(registered[0].implementation, "npu-kernels@1");
        assert_eq!(registered[0].gradient, Gradient::Kernel);
        let wrong = package("wrong-kernels", &["-DSHIFT=1"], &[binding()]).unwrap();
        register(&wrong).unwrap();
        for (change, says) in [
            (
                json!({ "op": "softcap" }),
                "for NPUs can't compute the operation `softcap`; they can compute rms_norm, layer_norm, glu",
            ),
            (Value::Null, "reads the result `y`"),
        ] {
            let mut odd = binding();
            match change.is_null() {
                true => odd["backward"]["arguments"][2] = json!({ "result": "y" }),
                false => odd["semantics"] = change,
            }
            let odd = package("odd-kernels", &[], &[odd]).unwrap();
            let said = register(&odd).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }

        let host = Device::flex().autodiff();
        let device = npu::device(0).unwrap().autodiff();
        {
            let _first = live::scope(Sampling::first());
            report::reset();
            let found = computed("all,prefer:npu-kernels@1", &device, true);
            same(&found, &computed("none", &host, true));
            let frozen = computed("all,prefer:npu-kernels@1", &device, false);
            same(&frozen, &computed("none", &host, false));
            let rows = report::report().rows.into_iter();
            let rows = rows.filter(|row| row.site.ends_with(SITE));
            let calls: Vec<_> = rows.filter_map(|row| row.call).collect();
            let on_npu = calls.iter().filter(|call| call.device == DeviceKind::Npu);
            let paths: Vec<String> = on_npu.map(|call| call.path()).collect();
            assert_eq!(paths, ["fused npu-kernels@1"]);
            let rows = live::report().rows;
            let row = rows.iter().find(|row| row.site.ends_with(SITE)).unwrap();
            assert!(row.checked > 0 && row.skipped == 0, "{row:?}");

            // Another epsilon.
            let panic = catch_unwind(AssertUnwindSafe(|| {
                computed("all,prefer:wrong-kernels@1", &device, true)
            }));
            let said = *panic.unwrap_err().downcast::<String>().unwrap();
            assert!(said.contains("the kernel is the odd one out"), "{said}");
            assert!(said.contains("(wrong-kernels@1)"), "{said}");
        }
        // An NPU that this process serves to itself is its own as well, and a policy without the package takes CANN's.
        let _off = live::scope(Sampling::off());
        live::reset();
        report::reset();
        same(
            &computed("all", &device, true),
            &computed("none", &host, true),
        );
        let rows = report::report().rows.into_iter();
        let mut calls = rows
            .filter(|row| row.site.ends_with(SITE))
            .filter_map(|row| row.call);
        assert!(calls.any(|call| call.path() == "fused aclnn (aclnnRmsNorm)"));

        // No rows: the function is not called.
        let _policy = policy::scope("all,prefer:npu-kernels@1".parse::<Policy>().unwrap());
        let x = Tensor::<2>::zeros([0, 24], &device).require_grad();
        let norm_of_24 = norm(24, &device);
        let y = norm_of_24.forward(x.clone());
        assert_eq!(y.dims(), [0, 24]);
        let gradients = y.sum().backward();
        assert_eq!(x.grad(&gradients).unwrap().dims(), [0, 24]);
        let of_weight = norm_of_24.weight.val().grad(&gradients).unwrap();
        assert_eq!(
            of_weight.into_data().try_into_vec::<f32>().unwrap(),
            [0.0; 24]
        );

        // A function that fails ends the session with its message.
        let y = norm(13, &device).forward(tensor::<2>([2, 13], 4, &device));
        y.try_into_data().unwrap_err();
        let said = kernels_runtime::remote::failure(&device).unwrap();
        assert!(said.contains("rms_norm of npu-kernels v1 ("), "{said}");
        assert!(said.contains("rows of 13 are not supported"), "{said}");
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}
