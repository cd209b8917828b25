//! Tests of sites at run time, called as the attribute's expansions do.

use crate::comparison::difference;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use kernels_runtime::__private::{self as private, At, declare_site, glu_mlp};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::policy::{Policy, scope};
use kernels_runtime::registry::{Site, section, sites};
use kernels_runtime::report::report;
use kernels_runtime::semantics::SemanticsKey;
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

/// Runs the MLP with projections that cast to `dtype`. Returns how often projections and body ran, and the result.
fn run(site: &'static Site, dtype: FloatDType) -> ([u32; 2], Tensor<2>) {
    let (projected, referred) = (Cell::new(0), Cell::new(0));
    let x = Tensor::<2>::from_floats([[1.0, -2.0], [0.5, 3.0]], &Device::flex());
    let y = glu_mlp(
        At::new(site),
        x,
        &|x| {
            projected.set(projected.get() + 1);
            (x.clone().cast(dtype), x.cast(dtype))
        },
        &|hidden| hidden * 2.0,
        None,
        None,
        &mut |x| {
            referred.set(referred.get() + 1);
            x
        },
    );
    ([projected.get(), referred.get()], y)
}

declare_site! {
    static PACKED = {
        kernel: "npu_fused_swiglu",
        item: "Packed::forward",
        form: Form::Impl,
        key: SemanticsKey::Glu(GluKey { projections: Projections::Chunked, clamp: Clamp::Limit, ..GluKey::SWIGLU }),
        key_json: r#"{"op":"glu","activation":"silu","projections":"chunked","clamp":"limit","up_offset":"zero","topk":"none"}"#,
        layer: None,
    }
}

declare_site! {
    static GATED = {
        kernel: "npu_fused_rmsnorm",
        item: "Gated::forward",
        form: Form::Impl,
        key: SemanticsKey::RmsNorm(RmsNormKey { gating: Gating::AfterNorm, groups: Groups::Many, ..RmsNormKey::LLAMA }),
        key_json: r#"{"op":"rms_norm","offset":"zero","rounding":"llama","scale":"weight","gating":"after_norm","groups":"many","shift":"none"}"#,
        layer: None,
    }
}

declare_site! {
    static MROPE = {
        kernel: "npu_fused_rope",
        item: "rotate",
        form: Form::Function,
        key: SemanticsKey::Rope(RopeKey { sections: Sections::Chunked, ..RopeKey::LLAMA }),
        key_json: r#"{"op":"rope","style":"half","width":"full","layout":"bnsd","table":"halves","sections":"chunked"}"#,
        layer: None,
    }
}

/// Returns the calls of the site in the report, by dtype and path.
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
    // Its body only counts and computes something else.
    let _unverified = live::scope(Sampling::off());
    {
        let _auto = scope(Policy::auto());
        let (parts, y) = run(&MLP, FloatDType::F32);
        assert_eq!(parts, [1, 0]);
        // 2 · silu(1) · 1
        let first: f32 = y.slice([0..1, 0..1]).into_scalar();
        assert!((first - 1.462_117).abs() < 1e-6, "{first}");
        // The projections may change the dtype. The dtype of their results counts.
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

/// Returns the results of a site with kernels and with references, and the paths of both.
fn both_paths(site: &Site, run: impl Fn() -> Vec<f32>) -> [Vec<f32>; 2] {
    let results = [Policy::auto(), Policy::reference()].map(|policy| {
        let _scope = scope(policy);
        run()
    });
    let paths: Vec<_> = calls(site).into_iter().map(|(_, path, _)| path).collect();
    assert_eq!(
        paths,
        ["fused cpu-simd", "reference: switched off by the policy"]
    );
    results
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

fn assert_close(results: [Vec<f32>; 2]) {
    let [fused, reference] = results.map(|all| all.into_iter().map(f64::from).collect::<Vec<_>>());
    assert!(
        difference(&fused, &reference) < 1e-5,
        "{fused:?} and {reference:?}"
    );
}

#[test]
fn packed_projections_run_on_both_paths() {
    let SemanticsKey::Glu(key) = PACKED.spec().key else {
        unreachable!()
    };
    let x = || Tensor::<2>::from_floats([[1.0, -2.0, 3.0, 0.5]], &Device::flex());
    let results = both_paths(&PACKED, || {
        values(private::glu_packed_mlp(
            At::new(&PACKED),
            x(),
            &|x| x * 2.0,
            &|hidden| hidden + 1.0,
            Some(1.5),
            &mut |x| private::glu_packed_reference(x * 2.0, Some(1.5), key) + 1.0,
        ))
    });
    assert_close(results);
}

#[test]
fn gated_norms_run_on_both_paths() {
    let SemanticsKey::RmsNorm(key) = GATED.spec().key else {
        unreachable!()
    };
    let device = Device::flex();
    let results = both_paths(&GATED, || {
        let x = Tensor::<2>::from_floats([[1.0, -2.0, 3.0, 0.5]], &device);
        let gate = Tensor::<2>::from_floats([[0.1, 2.0, -3.0, 1.5]], &device);
        let weight = || Tensor::<1>::from_floats([1.0, 0.5, 2.0, 1.0], &device);
        values(private::rms_norm_gated(
            At::new(&GATED),
            x,
            gate,
            &|| Some(weight()),
            1e-6,
            Some(2),
            &mut |(x, gate)| {
                private::rms_norm_gated_reference(x, gate, Some(weight()), 1e-6, Some(2), key)
            },
        ))
    });
    assert_close(results);
}

#[test]
fn sections_run_on_both_paths() {
    let SemanticsKey::Rope(key) = MROPE.spec().key else {
        unreachable!()
    };
    let device = Device::flex();
    let counting = |shape: [usize; 4]| {
        let count = shape.iter().product::<usize>() as i64;
        let numbers = Tensor::<1, Int>::arange(0..count, &device).float();
        (numbers * 0.37).sin().reshape(shape)
    };
    let results = both_paths(&MROPE, || {
        let (q, k) = (counting([1, 2, 3, 12]), counting([1, 1, 3, 12]));
        let (cos, sin) = (counting([3, 1, 3, 12]), counting([3, 1, 3, 12]) + 0.5);
        let sections = [1, 3, 2];
        let (q, k) = private::rope_sections(
            At::new(&MROPE),
            q,
            k,
            &cos,
            &sin,
            sections,
            &mut |(q, k)| private::rope_sections_reference(q, k, &cos, &sin, sections, key),
        );
        [values(q), values(k)].concat()
    });
    assert_close(results);
}

#[test]
fn a_declared_site_is_registered_with_its_record() {
    let site = sites()
        .find(|site| std::ptr::eq(*site, &MLP))
        .expect("the linker collected the site");
    assert_eq!(site.name(), "main::sites::Mlp::forward");
    let records = section::decode(site.record()).unwrap();
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    let mut expected = serde_json::to_value(site.spec()).unwrap();
    expected["schema"] = section::SCHEMA.into();
    expected["record"] = "site".into();
    assert_eq!(record.json(), &expected);
}
