//! The checks of the accepted cases: results, and what the registry and the report say.

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_kernels::registry::{self, Site};
use burn_kernels::report::report;

pub fn device() -> Device {
    Device::flex()
}

pub fn vector(values: &[f32]) -> Tensor<1> {
    Tensor::from_floats(values, &device())
}

pub fn linear(inputs: usize, outputs: usize) -> Linear {
    LinearConfig::new(inputs, outputs).init(&device())
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// Equal within a few roundings.
#[track_caller]
pub fn assert_near<const D: usize>(found: Tensor<D>, expected: &[f32]) {
    let found = values(found);
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{found:?} is not {expected:?}"
        );
    }
}

/// As [`assert_near`], and finite.
#[track_caller]
pub fn assert_same<const D: usize>(a: Tensor<D>, b: Tensor<D>) {
    assert_eq!(a.dims(), b.dims());
    let expected = values(b);
    assert!(
        expected.iter().all(|value| value.is_finite()),
        "{expected:?}"
    );
    assert_near(a, &expected);
}

/// The sites whose name contains `part`.
pub fn sites(part: &str) -> Vec<&'static Site> {
    registry::sites()
        .filter(|site| site.name().contains(part))
        .collect()
}

/// The site with this name, after the test's crate and module.
#[track_caller]
pub fn site(name: &str) -> &'static Site {
    let found: Vec<_> = registry::sites()
        .filter(|site| site.name().ends_with(&format!("::{name}")))
        .collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0]
}

/// The site is registered with this key.
#[track_caller]
pub fn assert_site(name: &str, key: &str) {
    assert_eq!(site(name).spec().key.to_string(), key);
}

/// The site ran on these paths, in the order of the alphabet; each is the start of one in the
/// report.
#[track_caller]
pub fn assert_paths(name: &str, expected: &[&str]) {
    let site = site(name).name();
    let rows = report().rows.into_iter().filter(|row| row.site == site);
    let mut found: Vec<String> = rows
        .filter_map(|row| row.call.map(|call| call.path()))
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
}
