//! Tests clients of a served CPU that send operands that don't match.

#![cfg(feature = "remote")]

mod strangers;

use burn::backend::Flex;
use kernels_serving::remote::{ServeOptions, Server};

#[test]
fn a_served_cpu_refuses_operands_that_dont_go_together() {
    if strangers::visit_if_told() {
        return;
    }
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0));
    let server = Server::start::<Flex>([Default::default()], options).unwrap();
    let name = "a_served_cpu_refuses_operands_that_dont_go_together";
    strangers::visit(&server, name, 1);
}
