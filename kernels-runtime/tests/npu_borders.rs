//! Tests clients of a served, emulated NPU that send operands that don't match.

#![cfg(feature = "npu")]

mod npu;
mod strangers;

use kernels_runtime::npu::serve;
use kernels_runtime::remote::ServeOptions;

#[test]
fn a_served_npu_refuses_operands_that_dont_go_together() {
    if strangers::visit_if_told() {
        return;
    }
    let name = "a_served_npu_refuses_operands_that_dont_go_together";
    // The backend keeps the device open until the process ends.
    npu::common::Scenario::new(name).leaks().run(|_| {
        let server = serve(ServeOptions::websocket(([127, 0, 0, 1], 0))).unwrap();
        // Each session opens a stream, which takes the emulator some time.
        strangers::visit(&server, name, 4);
    });
}
