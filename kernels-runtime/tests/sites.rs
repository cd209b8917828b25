//! What a site does at run time, called as the attribute's expansions call it.

#![cfg(feature = "cpu")]

use burn::tensor::{DType, Device, FloatDType, Tensor};
use kernels_runtime::__private::{At, declare_site, glu_mlp};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::policy::{Policy, scope};
use kernels_runtime::registry::{Site, section, sites};
use kernels_runtime::report::report;
use std::cell::Cell;

declare_site! {
    static MLP = {
        kernel: "npu_fused_swiglu",
        item: "Mlp::forward",
        form: Form::Impl,
        key: SemanticsKey::Glu(GluKey::SWIGLU),
        key_json: r#"{"op":"glu","activation":"silu","projections":"separate","clamp":"none","up_offset":"zero","topk":"none"}"#,
        layer: None,
    }
}

/// Runs the MLP with projections that cast to `dtype`; which of its parts ran, and its result.
fn run(site: &'static Site, dtype: FloatDType) -> ([u32; 2], Tensor<2>) {
    let (projected, referred) = (Cell::new(0), Cell::new(0));
    let x = Tensor::<2>::from_floats([[1.0, -2.0], [0.5, 3.0]], &Device::flex());
    let y = glu_mlp(
        At::new(site),
        x,
        |x| {
            projected.set(projected.get() + 1);
            (x.clone().cast(dtype), x.cast(dtype))
        },
        |hidden| hidden * 2.0,
        None,
        None,
        |x| {
            referred.set(referred.get() + 1);
            x
        },
    );
    ([projected.get(), referred.get()], y)
}

/// The calls of the site as the report tells them, by dtype and path.
fn calls(site: &Site) -> Vec<(String, String, u64)> {
    let mut calls: Vec<_> = report()
        .rows
        .into_iter()
        .filter(|row| row.site == site.name())
        .filter_map(|row| {
            row.call
                .map(|call| (call.dtype.to_string(), call.path(), row.calls))
        })
        .collect();
    calls.sort();
    calls
}

#[test]
fn a_gated_mlp_takes_one_path_and_counts_it_once() {
    // Its body is a stand-in that only counts.
    let _unverified = live::scope(Sampling::off());
    {
        let _auto = scope(Policy::auto());
        let (parts, y) = run(&MLP, FloatDType::F32);
        assert_eq!(parts, [1, 0]);
        // 2 · silu(1) · 1
        let first: f32 = y.slice([0..1, 0..1]).into_scalar();
        assert!((first - 1.462_117).abs() < 1e-6, "{first}");
        // The projections may change the dtype: what they give is what counts.
        let (parts, y) = run(&MLP, FloatDType::BF16);
        assert_eq!((parts, y.dtype()), ([1, 0], DType::BF16));
    }
    {
        let _off = scope(Policy::reference());
        let (parts, _) = run(&MLP, FloatDType::F32);
        assert_eq!(parts, [0, 1]);
    }
    let row = |dtype: &str, path: &str| (dtype.to_owned(), path.to_owned(), 1);
    assert_eq!(
        calls(&MLP),
        [
            row("bf16", "fused cpu-simd"),
            row("f32", "fused cpu-simd"),
            row("f32", "reference: switched off by the policy"),
        ]
    );
}

#[test]
fn a_declared_site_is_registered_with_its_record() {
    let site = sites()
        .find(|site| std::ptr::eq(*site, &MLP))
        .expect("the linker collected the site");
    assert_eq!(site.name(), "sites::Mlp::forward");
    let records = section::decode(site.record()).unwrap();
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    let mut expected = serde_json::to_value(site.spec()).unwrap();
    expected["schema"] = section::SCHEMA.into();
    expected["record"] = "site".into();
    assert_eq!(record.json(), &expected);
}
