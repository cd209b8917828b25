//! Sizes and patches are those of transformers' image processors.

use crate::fixtures::{bytes, cases, numbers, picture};
use kernels_images::{Processor, Resizer};
use serde_json::{Value, json};

fn processor(mut settings: Value) -> Processor {
    settings["image_processor_type"] = json!("Qwen2VLImageProcessor");
    Processor::from_json("a test", &settings.to_string()).unwrap()
}

#[test]
fn patches_are_those_of_both_processors() {
    let cases = cases(include_str!("../fixtures/patches.json"));
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let both = [
            (Resizer::Pillow, "pillow"),
            (Resizer::Torchvision, "torchvision"),
        ];
        for (resizer, name) in both {
            let made = processor(case["config"].clone()).with_resizer(resizer);
            let patches = made.patches(name, &picture(case)).unwrap();
            assert_eq!(patches.grid(), numbers(&case["grid"]));
            let grid = made.grid(name, picture(case).size()).unwrap();
            assert_eq!(grid, patches.grid());
            assert_eq!(made.patch_width(), patches.width());
            let ours: Vec<u8> = patches
                .values()
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            assert_eq!(ours, bytes(case, name), "{name} {}", case["config"]);
            let [time, rows, columns] = patches.grid();
            assert_eq!(
                patches.values().len(),
                time * rows * columns * patches.width()
            );
        }
    }
}

#[test]
fn sizes_are_those_of_smart_resize() {
    let cases = cases(include_str!("../fixtures/sizes.json"));
    assert_eq!(cases.len(), 120);
    let mut refused = 0;
    for case in &cases {
        let [width, height, factor, least, most] = numbers(case);
        let made =
            processor(json!({"patch_size": factor / 2, "min_pixels": least, "max_pixels": most}));
        let size = made.size("a.png", [width, height]);
        match case[5].is_null() {
            false => assert_eq!(
                size.unwrap().map(Value::from),
                [case[5].clone(), case[6].clone()],
                "{case}"
            ),
            true => {
                refused += 1;
                let error = size.unwrap_err().to_string();
                assert!(error.starts_with("a.png: the picture is "), "{error}");
                assert!(error.contains("at most 200 times the other"), "{error}");
            }
        }
    }
    assert!((1..60).contains(&refused));
}

#[test]
fn sizes_that_nothing_holds_are_refused() {
    let large = processor(json!({"min_pixels": 1u64 << 30, "max_pixels": 1u64 << 31}));
    let error = large.size("a.png", [100, 100]).unwrap_err().to_string();
    assert!(error.contains("of 1 to 67108864 pixels"), "{error}");
    // The smallest size is a token, whatever the limit.
    let small = processor(json!({"min_pixels": 1, "max_pixels": 100}));
    assert_eq!(small.size("a.png", [13, 13]).unwrap(), [28, 28]);
    let fixed = processor(json!({"do_resize": false}));
    assert_eq!(fixed.size("a.png", [56, 28]).unwrap(), [56, 28]);
    let error = fixed.size("a.png", [56, 29]).unwrap_err().to_string();
    assert!(error.contains("multiples of 28"), "{error}");
}
