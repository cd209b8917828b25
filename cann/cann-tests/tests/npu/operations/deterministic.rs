//! A policy that asks for determinism sets CANN's own option, on devices that are open and on those opened later.

use crate::npu::common::Scenario;
use burn_cann::backend::{self, CannDevice};
use kernels_runtime::policy::{self, Policy};

fn is_set(index: usize) -> bool {
    let device = CannDevice::open(index).unwrap();
    let stream = device.stream().unwrap();
    stream.device().is_deterministic().unwrap()
}

#[test]
fn the_option_follows_the_policy() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let _first = kernels_serving::npu::device(0).unwrap();
        assert!(!is_set(0));
        drop(policy::scope(Policy::auto()));
        assert!(!is_set(0), "another policy changes nothing");
        {
            let _scope = policy::scope(Policy::auto().deterministic());
            assert!(is_set(0));
        }
        // Work of the scope may not have run yet.
        assert!(is_set(0));
        let _second = kernels_serving::npu::device(1).unwrap();
        assert!(is_set(1));
        kernels_serving::npu::close();
        backend::close();
    });
}
