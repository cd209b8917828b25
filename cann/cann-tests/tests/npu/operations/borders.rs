//! Tests clients of a served, emulated NPU that send operands that don't match.

use crate::npu::common::{Scenario, this_test};
use crate::strangers;
use kernels_serving::npu::serve;
use kernels_serving::remote::ServeOptions;

#[test]
fn a_served_npu_refuses_operands_that_dont_go_together() {
    if strangers::visit_if_told() {
        return;
    }
    // The backend keeps the device open until the process ends.
    Scenario::new().leaks().run(|_| {
        let server = serve(ServeOptions::websocket(([127, 0, 0, 1], 0))).unwrap();
        // Each session opens a stream, which takes the emulator some time.
        strangers::visit(&server, &this_test(), 4);
    });
}
