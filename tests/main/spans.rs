//! Tests of the spans that sites open for profiles and traces.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_kernels::dispatch::SPAN_TARGET;
use burn_kernels::fused_kernel;
use burn_kernels::live::{self, Sampling};
use burn_kernels::policy::{self, Policy};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// Runs a norm and an MLP, forward and backward.
fn step(device: &Device) {
    let linear = || LinearConfig::new(8, 8).with_bias(false).init(device);
    let norm = Norm {
        weight: Param::from_tensor(Tensor::ones([8], device)),
        eps: 1e-6,
    };
    let mlp = Mlp {
        gate_proj: linear(),
        up_proj: linear(),
        down_proj: linear(),
    };
    let y = mlp.forward(norm.forward(Tensor::<2>::ones([3, 8], device)));
    if device.is_autodiff() {
        y.sum().backward();
    }
}

/// A listener that writes spans as they end: their target, level and fields.
#[derive(Clone, Default)]
struct Ended(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ended {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let mut line = format!("{} {}", span.metadata().target(), span.metadata().level());
        for (name, value) in &span.extensions().get::<Fields>().unwrap().0 {
            line += &format!(" {name}={value}");
        }
        self.0.lock().unwrap().push(line);
    }
}

/// Runs some work and returns the spans that ended.
fn spans(targets: Targets, work: impl FnOnce()) -> Vec<String> {
    let _unverified = live::scope(Sampling::off());
    let ended = Ended::default();
    let listener = Registry::default().with(ended.clone()).with(targets);
    tracing::subscriber::with_default(listener, work);
    let mut lines = ended.0.lock().unwrap();
    std::mem::take(&mut *lines)
}

fn sites() -> Targets {
    Targets::new().with_target(SPAN_TARGET, Level::TRACE)
}

/// Returns the line of a site's call with this path, or of its gradient.
fn expected(kernel: &str, path: Option<&str>, site: &str) -> String {
    let fields = match path {
        Some(path) => format!("pass=forward path={path}"),
        None => "pass=backward".to_owned(),
    };
    format!(
        "burn_kernels::site TRACE kernel={kernel} {fields} site={}::{site}::forward",
        module_path!()
    )
}

#[test]
fn calls_and_gradients_have_spans() {
    let _policy = policy::scope(Policy::auto());
    let (norm, unit) = ("npu_fused_rmsnorm", "npu_fused_swiglu");
    let fused = Some("fused cpu-simd");
    let forward = [expected(norm, fused, "Norm"), expected(unit, fused, "Mlp")];
    let backward = [expected(unit, None, "Mlp"), expected(norm, None, "Norm")];
    let found = spans(sites(), || step(&Device::flex().autodiff()));
    assert_eq!(found, [forward.clone(), backward].concat());
    assert_eq!(spans(sites(), || step(&Device::flex())), forward);
}

/// Burn's own operations compute the gradients of a reference.
#[test]
fn a_reference_has_a_span_with_its_reason() {
    let _policy = policy::scope(Policy::reference());
    let found = spans(sites(), || step(&Device::flex().autodiff()));
    assert_eq!(found.len(), 2, "{found:?}");
    for line in found {
        assert!(line.contains(" path=reference: "), "{line}");
    }
}

/// A site records nothing into a span that is not its own.
#[test]
fn a_span_of_the_program_keeps_its_fields() {
    let _policy = policy::scope(Policy::auto());
    let of_program = || Targets::new().with_target("program", Level::TRACE);
    let found = spans(of_program(), || {
        let _span = tracing::info_span!(target: "program", "request", path = "/index").entered();
        step(&Device::flex());
    });
    assert_eq!(found, ["program INFO path=/index"]);
}
