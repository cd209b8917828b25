//! The cases that `tests/fixtures/generate.py` writes.

use data_encoding::BASE64;
use kernels_images::Picture;
use serde_json::Value;

pub fn cases(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap()
}

pub fn bytes(case: &Value, name: &str) -> Vec<u8> {
    BASE64
        .decode(case[name].as_str().unwrap().as_bytes())
        .unwrap()
}

pub fn numbers<const N: usize>(value: &Value) -> [usize; N] {
    std::array::from_fn(|at| usize::try_from(value[at].as_u64().unwrap()).unwrap())
}

/// The picture that a case has as `size` and `rgb`.
pub fn picture(case: &Value) -> Picture {
    Picture::of_rgb(numbers(&case["size"]), bytes(case, "rgb")).unwrap()
}

/// Returns a file of the cases of decoding.
pub fn file(name: &str) -> Vec<u8> {
    let cases = cases(include_str!("../fixtures/decoded.json"));
    let case = cases.iter().find(|case| case["name"] == name).unwrap();
    bytes(case, "file")
}
