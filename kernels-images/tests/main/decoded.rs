//! Pixels are those of Pillow, and resized ones those of Pillow and torchvision.

use crate::fixtures::{bytes, cases, numbers, picture};
use kernels_images::{Alpha, Decoding, Picture, Resizer};
use serde_json::Value;

/// The largest difference from libjpeg's samples in these pictures. PNG files have Pillow's samples.
const JPEG: u8 = 4;

fn check(case: &Value, alpha: Alpha, expected: &[u8]) {
    let name = case["name"].as_str().unwrap();
    let decoding = Decoding {
        alpha,
        ..Decoding::default()
    };
    let picture = Picture::decode(name, &bytes(case, "file"), &decoding).unwrap();
    assert_eq!(picture.size(), numbers(&case["size"]), "{name}");
    assert_eq!(picture.rgb().len(), expected.len(), "{name}");
    let differences = picture.rgb().iter().zip(expected);
    let largest = differences
        .map(|(ours, theirs)| ours.abs_diff(*theirs))
        .max();
    let allowed = if name.starts_with("JPEG") { JPEG } else { 0 };
    assert!(
        largest.unwrap() <= allowed,
        "{name}, {alpha:?}: {largest:?}"
    );
}

#[test]
fn pixels_are_those_of_pillow() {
    let cases = cases(include_str!("../fixtures/decoded.json"));
    assert!(cases.len() > 50);
    for case in &cases {
        let rgb = bytes(case, "rgb");
        check(case, Alpha::Dropped, &rgb);
        if case.get("is_wrong_on_white").is_some() {
            continue;
        }
        let on_white = case.get("on_white").map(|_| bytes(case, "on_white"));
        check(case, Alpha::OnWhite, &on_white.unwrap_or(rgb));
    }
}

#[test]
fn resized_pixels_are_those_of_both_packages() {
    let cases = cases(include_str!("../fixtures/resized.json"));
    assert_eq!(cases.len(), 6);
    let mut differ = 0;
    for case in &cases {
        let size = numbers(&case["resized"]);
        let both = [
            (Resizer::Pillow, "pillow"),
            (Resizer::Torchvision, "torchvision"),
        ];
        for (resizer, name) in both {
            let resized = resizer.resize(&picture(case), size).unwrap();
            assert_eq!(resized.size(), size);
            assert_eq!(
                resized.rgb(),
                bytes(case, name),
                "{name} {}→{size:?}",
                case["size"]
            );
        }
        differ += usize::from(bytes(case, "pillow") != bytes(case, "torchvision"));
    }
    assert!(differ > 0, "the cases don't tell the packages apart");
}

/// Two releases of Pillow differ where the newer one begins with the height.
#[test]
fn the_width_can_come_first() {
    let mut differ = 0;
    for case in &cases(include_str!("../fixtures/resized.json")) {
        let [width, height] = numbers(&case["resized"]);
        let picture = picture(case);
        let wide = Resizer::Pillow
            .resize(&picture, [width, picture.size()[1]])
            .unwrap();
        let expected = Resizer::Pillow.resize(&wide, [width, height]).unwrap();
        let found = Resizer::Pillow12.resize(&picture, [width, height]).unwrap();
        assert_eq!(found, expected);
        differ += usize::from(found.rgb() != bytes(case, "pillow"));
    }
    assert!(differ > 0, "no case begins with the height");
}

#[test]
fn a_size_without_pixels_is_refused() {
    let picture = Picture::of_rgb([1, 1], vec![1, 2, 3]).unwrap();
    for size in [[0, 1], [1, 0]] {
        let error = Resizer::Pillow.resize(&picture, size).unwrap_err();
        assert!(error.to_string().contains("can't be resized"), "{error}");
    }
    for (size, bytes) in [([0, 0], 0), ([1, 1], 4), ([usize::MAX, 2], 6)] {
        let error = Picture::of_rgb(size, vec![0; bytes]).unwrap_err();
        assert!(error.to_string().contains("don't have"), "{error}");
    }
}
