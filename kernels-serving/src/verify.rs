//! The comparison of every case on a served CPU with the same CPU in this process. Results and gradients are equal bit
//! for bit, because the same kernels run.

use crate::remote::{ServeOptions, Server, connect};
use burn::backend::Flex;
use burn::tensor::Device;
use kernels_runtime::__serving::cases;
use kernels_runtime::registry::FloatType;

#[test]
fn kernels_give_the_same_bits_where_they_are_served() {
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0));
    let server = Server::start::<Flex>([Default::default()], options).unwrap();
    let devices = connect(server.address(), server.token()).unwrap();
    let [served] = devices.as_slice() else {
        panic!("one device is served: {devices:?}")
    };
    let here = Device::flex();
    let mut compared = 0;
    for case in cases() {
        for dtype in FloatType::ALL {
            let expected = case.fused(dtype, &here).unwrap();
            let got = case.fused(dtype, served).unwrap();
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(
                    bits(&got.values),
                    bits(&expected.values),
                    "{} of {} in {dtype}, {}",
                    got.name,
                    case.key(),
                    case.describe(),
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}
