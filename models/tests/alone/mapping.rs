//! Models that are kernelized by a mapping alone: nothing in their source names the kernels that run then.

use crate::common::{ints, model_dir, read};
use crate::counting::alone;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::dispatch::{DeviceKind, DeviceKinds, sites};
use burn_kernels::mapping::{self, Mapping, ModeFlags, Rule, kernelize, revert};
use burn_kernels::ops::attention::{self as op, Attention, Inputs};
use burn_kernels::ops::fused::{Made, OfDispatch, OpLaunch};
use burn_kernels::ops::rms_norm::{self, RmsNorm};
use burn_kernels::policy::{self, Policy};
use burn_kernels::registry::{
    CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch,
};
use burn_kernels::report::{report, reset};
use burn_kernels::semantics::SemanticsKey;
use burn_kernels::{attention, declare_kernel};
use kernels_models::load;
use std::collections::{BTreeMap, BTreeSet};

const ACME: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "acme",
    dtypes: &[FloatType::F32],
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_) | SemanticsKey::Attention(_)),
    limits: None,
    operators: None,
    launch: Launch::Custom,
};

declare_kernel! {
    /// Attention of another crate, in Burn's operations.
    pub static ACME_ATTENTION = KernelSpec {
        id: "acme_model_attention",
        op: "attention",
        version: 1,
        summary: "attention of another crate",
        implementations: &[Implementation {
            launch: Launch::Attention(op::Launch(OpLaunch::by::<Attention>(
                &(attend as fn(_) -> _),
            ))),
            ..ACME
        }],
    };
}

declare_kernel! {
    /// A norm of another crate, in Burn's operations.
    pub static ACME_NORM = KernelSpec {
        id: "acme_model_norm",
        op: "rms_norm",
        version: 1,
        summary: "a norm of another crate",
        implementations: &[Implementation {
            launch: Launch::RmsNorm(rms_norm::Launch(OpLaunch::by::<RmsNorm>(
                &(normalise as fn(_) -> _),
            ))),
            ..ACME
        }],
    };
}

fn attend(operands: OfDispatch<Attention>) -> Made<DispatchTensor> {
    let (settings, key, lengths) = (operands.settings(), operands.key(), operands.lengths());
    let ([q, k, v], bias, sinks) = operands.into_parts();
    let [q, k, v] = [q, k, v].map(Tensor::from_dispatch);
    let inputs = Inputs {
        q,
        k,
        v,
        bias: bias.map(Tensor::from_dispatch),
        sinks: sinks.map(Tensor::from_dispatch),
        lengths,
    };
    Made::new(op::reference(inputs, settings, key).into_dispatch())
}

fn normalise(operands: OfDispatch<RmsNorm>) -> Made<DispatchTensor> {
    // A check of live verification may take rows.
    match operands.x().shape().num_dims() {
        2 => normalise_of::<2>(operands),
        3 => normalise_of::<3>(operands),
        rank => panic!("no norm of these models has {rank} axes"),
    }
}

fn normalise_of<const D: usize>(operands: OfDispatch<RmsNorm>) -> Made<DispatchTensor> {
    let (settings, key) = (operands.settings(), operands.key());
    let (x, [weight, gate, _]) = operands.into_parts();
    let inputs = rms_norm::Inputs::<D> {
        x: Tensor::from_dispatch(x),
        weight: weight.map(Tensor::from_dispatch),
        gate: gate.map(Tensor::from_dispatch),
    };
    Made::new(rms_norm::reference(inputs, settings, key).into_dispatch())
}

fn of<const N: usize>(rules: [(&str, DeviceKind, &str, ModeFlags); N]) -> Mapping {
    let rules = rules
        .into_iter()
        .map(|(layer, device, kernel, mode)| Rule::new(layer, device, kernel).during(mode));
    rules.fold(Mapping::new(), |mapping, rule| mapping.with(rule).unwrap())
}

/// The logits of a fixture's model for its own ids.
fn logits(name: &str, device: &Device, dtype: FloatDType) -> Vec<f64> {
    let (_, model) = load(&model_dir(name), device, dtype).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let logits = model.forward(ints(&golden["input_ids"], device), None);
    logits.into_data().iter::<f64>().collect()
}

/// Returns the paths of each layer in a run of the model in f32, after a comparison of its logits with those of the
/// references in f64.
fn paths(name: &str, device: &Device) -> BTreeMap<&'static str, BTreeSet<String>> {
    let wide = {
        let _plain = policy::scope(Policy::none());
        logits(name, device, FloatDType::F64)
    };
    reset();
    let narrow = logits(name, device, FloatDType::F32);
    let largest = wide.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
    assert_eq!(narrow.len(), wide.len());
    for (a, b) in narrow.iter().zip(&wide) {
        // Two layers of sums of some hundred terms, each with a few roundings.
        assert!((a - b).abs() <= 1e-5 * largest, "{name}: {a} is not {b}");
    }
    let layers: BTreeMap<String, &str> = sites()
        .filter_map(|site| Some((site.name(), site.spec().layer?)))
        .collect();
    let mut paths = BTreeMap::<_, BTreeSet<_>>::new();
    for row in report().rows {
        if let (Some(layer), Some(call)) = (layers.get(&row.site), row.call) {
            let kernel = call.kernel.unwrap_or("none");
            let path = format!("{kernel}: {}", call.path());
            paths.entry(*layer).or_default().insert(path);
        }
    }
    paths
}

fn only(path: &str) -> BTreeSet<String> {
    BTreeSet::from([path.to_owned()])
}

#[test]
fn every_site_of_the_models_has_a_layer_name() {
    let mut transformers = BTreeSet::new();
    for site in sites().filter(|site| site.spec().krate == "kernels-models") {
        let layer = site.spec().layer;
        let layer = layer.unwrap_or_else(|| panic!("{} has no layer name", site.name()));
        if !site.name().split("::").any(|part| part == layer) {
            transformers.insert(layer);
        }
    }
    // The names of kernels in transformers, and those of sums that are normalised. Every other site has its own name.
    let known = [
        "AddRMSNorm",
        "AddRMSNormZeroCentered",
        "ForCausalLMLoss",
        "GeGLUMLP",
        "LayerNorm",
        "Linear",
        "MegaBlocksMoeMLP",
        "RMSNorm",
        "RMSNormZeroCentered",
        "SwiGLUMLP",
        "rotary_pos_emb",
    ];
    assert_eq!(transformers, BTreeSet::from(known));
}

#[test]
fn a_model_is_kernelized_by_a_mapping_and_reverted() {
    let _alone = alone();
    let device = Device::default();
    let fused = "npu_fused_swiglu: fused cpu-simd";
    let before = paths("llama", &device);
    assert_eq!(before["RMSNorm"], only("npu_fused_rmsnorm: fused cpu-simd"));
    assert_eq!(before["SwiGLUMLP"], only(fused));

    mapping::register(of([
        (
            "RMSNorm",
            DeviceKind::Cpu,
            "acme_model_norm",
            ModeFlags::INFERENCE,
        ),
        (
            "rotary_pos_emb",
            DeviceKind::Cpu,
            "reference",
            ModeFlags::FALLBACK,
        ),
        (
            "causal_attention",
            DeviceKind::Cpu,
            "acme_model_attention",
            ModeFlags::FALLBACK,
        ),
        // This is for another device.
        (
            "SwiGLUMLP",
            DeviceKind::Npu,
            "reference",
            ModeFlags::FALLBACK,
        ),
    ]));
    let plan = kernelize(ModeFlags::INFERENCE, &device).unwrap();
    let planned = |site: &str| {
        let mut rows = plan.sites.iter().filter(|row| row.site.ends_with(site));
        rows.next().unwrap().path()
    };
    assert!(planned("layers::attention::causal_attention").starts_with("fused acme (mapped"));

    let mapped = paths("llama", &device);
    assert_eq!(mapped["RMSNorm"], only("acme_model_norm: fused acme"));
    assert_eq!(
        mapped["causal_attention"],
        only("acme_model_attention: fused acme")
    );
    assert_eq!(
        mapped["rotary_pos_emb"],
        only("none: reference: the mapping says so")
    );
    assert_eq!(mapped["SwiGLUMLP"], only(fused));
    // The mode is the one that was given, with autodiff too.
    let training = paths("llama", &device.clone().autodiff());
    assert_eq!(training["RMSNorm"], mapped["RMSNorm"]);

    // Without it, the mode is that of the call: the mapping has no norm for training.
    revert();
    let training = paths("llama", &device.clone().autodiff());
    assert_eq!(training["RMSNorm"], before["RMSNorm"]);
    assert_eq!(training["causal_attention"], mapped["causal_attention"]);
    mapping::replace(Mapping::new());
    assert_eq!(paths("llama", &device), before);
}

#[test]
fn attention_runs_the_implementation_that_is_set() {
    let _alone = alone();
    policy::install(Policy::auto());
    let device = Device::default();
    let path = || paths("mistral_sw8", &device)["sliding_attention"].clone();
    let acme = only("acme_model_attention: fused acme");
    let built_in = only("npu_fused_attention: fused cpu-simd");
    let reference = only("none: reference: switched off by the policy");
    assert_eq!(path(), built_in);
    for name in [
        "acme",
        "acme_model_attention",
        "kernels-models/acme_model_attention@1",
    ] {
        attention::set_implementation(name).unwrap();
        assert_eq!(path(), acme, "{name}");
        // Other layers run as before.
        assert!(paths("llama", &device)["RMSNorm"].contains("npu_fused_rmsnorm: fused cpu-simd"));
    }
    // Some sites, a thread, and no choice.
    attention::set_implementation("layers::attention::sliding*=reference").unwrap();
    assert_eq!(path(), reference);
    assert_eq!(paths("llama", &device)["causal_attention"], acme);
    {
        let _scope = attention::scope_implementation("*sliding_attention=cpu-simd").unwrap();
        assert_eq!(path(), built_in);
        let elsewhere = std::thread::scope(|scope| scope.spawn(path).join().unwrap());
        assert_eq!(elsewhere, reference);
    }
    attention::set_implementation("layers::attention::sliding*=auto").unwrap();
    attention::set_implementation("auto").unwrap();
    assert_eq!(path(), built_in);

    // A choice is an explicit request, and a wrong name changes nothing.
    let error = attention::set_implementation("cpu-smd")
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `cpu-simd`?"), "{error}");
    assert!(attention::set_implementation("acme_model_attention@2").is_err());
    assert_eq!(path(), built_in);
    let half = std::panic::catch_unwind(|| {
        let _scope = attention::scope_implementation("acme").unwrap();
        logits("llama", &Device::default(), FloatDType::BF16)
    });
    let message = *half.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("does not take this dtype"), "{message}");
    assert!(message.contains("acme"), "{message}");
    policy::install(Policy::auto());
}
