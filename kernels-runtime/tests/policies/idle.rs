//! Tests that parts of a policy without an effect are reported. The test has a process of its own, because layers
//! are entered once in it.

use crate::acme::{inference, llama, path};
use crate::process;
use crate::warnings_log::{listen, said};
use burn::tensor::{DType, Device, Tensor};
use kernels_runtime::dispatch::{DeviceKind, Mode, plan_for};
use kernels_runtime::mapping::{self, Mapping, Rule};
use kernels_runtime::ops::moe::{Routing, route};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::FloatType::F32;
use kernels_runtime::report::report;
use kernels_runtime::semantics::RouterKey;
use std::panic::catch_unwind;

fn notes() -> Vec<String> {
    let plan = plan_for(&Device::flex(), DType::F32, Mode::Inference).unwrap();
    assert!(
        plan.notes
            .iter()
            .all(|note| format!("{plan:#}").contains(note))
    );
    plan.notes
}

#[test]
fn what_does_nothing_is_told() {
    if !process::is_own() {
        process::alone("idle::what_does_nothing_is_told");
        return;
    }
    listen();
    let call = || path(llama(), inference(F32));
    let idle = || {
        let report = report();
        assert!(
            report
                .idle
                .iter()
                .all(|idle| report.to_string().contains(idle))
        );
        report.idle
    };

    // A kernel that no site has.
    {
        let _asked = policy::scope("all,+acme_elsewhere".parse().unwrap());
        for _ in 0..3 {
            call();
        }
        let warnings = said();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("`+acme_elsewhere`, which no site of this program can call"));
        assert_eq!(notes(), warnings);
        assert!(idle()[0].contains("`+acme_elsewhere`, which did nothing"));
    }
    // A kernel that a rule of the mapping gives to a site.
    {
        let text = "all,+acme_norm,map:RMSNorm@cpu=acme_norm";
        let _mapped = policy::scope(text.parse().unwrap());
        assert!(idle().is_empty(), "the site was reached");
        call();
        assert_eq!((said(), notes()), (Vec::new(), Vec::new()));
    }
    // A kernel of sites that the program never reached.
    {
        let _asked = policy::scope("none,+acme_random".parse().unwrap());
        call();
        assert_eq!((said(), notes()), (Vec::new(), Vec::new()));
        assert!(idle()[0].contains("`+acme_random`, which did nothing"));
    }
    // A kernel of operations without a site, in a program that has no site of it.
    {
        let _asked = policy::scope("all,strict,+npu_fused_moe".parse().unwrap());
        call();
        assert_eq!((said(), notes()), (Vec::new(), Vec::new()));
        assert!(idle()[0].contains("`+npu_fused_moe`, which did nothing"));
        let routing = Routing::new(RouterKey::MIXTRAL, 3, 2).unwrap();
        route(Tensor::zeros([1, 3], &Device::flex()), None, &routing);
        assert_eq!((idle(), said()), (Vec::new(), Vec::new()));
    }
    // Rules of a mapping that no call matched: for another device, and for a layer that no site has.
    {
        let _mapped = policy::scope("all,map:RMSNorm@npu=acme_norm".parse().unwrap());
        call();
        assert!(idle()[0].contains("`map:RMSNorm@npu=acme_norm` did nothing"));
        let also = Rule::new("RMSNorm", DeviceKind::Cpu, "reference");
        let _here = mapping::scope(Mapping::new().with(also).unwrap());
        call();
        assert!(idle().is_empty(), "one rule for the layer matched");
        let unknown = Rule::new("RMSNrm", DeviceKind::Cpu, "reference");
        let _unknown = mapping::scope(Mapping::new().with(unknown).unwrap());
        call();
        let idle = idle();
        assert_eq!(idle.len(), 1, "{idle:?}");
        assert!(idle[0].contains("did you mean `RMSNorm`?"), "{idle:?}");
        said();
    }
    // A strict policy makes it an error.
    {
        let strict: Policy = "all,strict,+acme_elsewhere".parse().unwrap();
        let panic = catch_unwind(move || {
            let _strict = policy::scope(strict);
            path(llama(), inference(F32))
        });
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.contains("no site of this program can call"),
            "{message}"
        );
    }

    // Rules for layers in a program without layers.
    let _layers = policy::scope("all,-first:1,+last:2".parse().unwrap());
    call();
    assert_eq!(said(), Vec::<String>::new(), "a layer may come yet");
    for _ in 0..200 {
        call();
    }
    let warnings = said();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for words in ["`-first:1`, `+last:2`", "policy::layer(index, count)"] {
        assert!(warnings[0].contains(words), "{warnings:?}");
    }
    assert_eq!(idle(), warnings);
    assert!(notes()[0].contains("a plan does not know of layers"));

    {
        let _layer = policy::layer(0, 3);
        assert_eq!(call(), "policy");
    }
    assert_eq!(call(), "cpu-simd");
    assert!(idle().is_empty(), "there are layers");
    assert_eq!(said(), Vec::<String>::new());
}
