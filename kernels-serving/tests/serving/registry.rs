//! Tests that a program with the server has every kernel of the runtime, once, and its own sites.

use kernels_runtime::dispatch::sites;
use kernels_runtime::registry::{check, kernels};
use kernels_serving::remote::{Kernels, ServeOptions};
use std::collections::BTreeSet;

#[test]
fn kernels_and_sites_are_registered_where_the_server_is_linked() {
    // Both halves of `remote` are here, the runtime's and the server's.
    assert!(format!("{:?}", Kernels::<burn::backend::Flex>::new().all()).contains("RmsNorm"));
    assert!(format!("{:?}", ServeOptions::default()).contains("Iroh"));
    check().unwrap();
    let ids: Vec<&str> = kernels().map(|kernel| kernel.id).collect();
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    for id in [
        "npu_fused_rmsnorm",
        "npu_fused_swiglu",
        "npu_fused_attention",
    ] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    let items: Vec<&str> = sites().map(|site| site.spec().item).collect();
    for item in ["Served::forward", "Lacking::forward"] {
        assert!(items.contains(&item), "{item} is not in {items:?}");
    }
}
