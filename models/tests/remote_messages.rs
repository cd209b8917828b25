//! Tests the number of messages that a training step sends to a served device.

#![cfg(feature = "remote")]

#[path = "../benches/messages/mod.rs"]
mod messages;

use burn::backend::Flex;
use burn::server::telemetry::TelemetryProbe;
use burn_kernels::remote::{ServeOptions, Server, connect};
use messages::{EVENTS, PARTS, sum};

#[test]
fn a_step_with_kernels_sends_a_fifth_of_the_messages() {
    let (probe, events) = TelemetryProbe::channel(EVENTS);
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0)).telemetry(probe);
    let server = Server::start::<Flex>([Default::default()], options).unwrap();
    let devices = connect(server.address(), server.token()).unwrap();
    let [fused, plain] = messages::of_a_step(&messages::config(), &devices[0], events);
    for (name, (fused, plain)) in PARTS.into_iter().zip(fused.into_iter().zip(plain)) {
        println!("{name}: {fused:?}, without kernels {plain:?}");
        assert_eq!((fused.reads, plain.reads), (0, 0), "{name} waits");
    }
    let (with, without) = (sum(&fused).all(), sum(&plain).all());
    assert!(with * 5 <= without, "{with} of {without}");
    // One message for each parameter: the step takes all tensors over and releases none.
    let layers = messages::config().num_hidden_layers;
    let parameters = layers * 11 + 2;
    assert_eq!(fused[2].all(), parameters);
}
