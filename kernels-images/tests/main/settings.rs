//! Settings as published files have them, and those that are refused.

use kernels_images::{Processor, Resizer};
use std::fs;

fn read(json: &str) -> Processor {
    Processor::from_json("preprocessor_config.json", json).unwrap()
}

/// The same settings by the names of Qwen2-VL, of transformers 4 and of transformers 5.
#[test]
fn all_spellings_are_read() {
    let old = read(
        r#"{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 12845056,
            "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711]}"#,
    );
    let size = read(
        r#"{"image_processor_type": "Qwen2_5_VLImageProcessor", "min_pixels": null, "resample": 3,
            "size": {"shortest_edge": 3136, "longest_edge": 12845056}, "rescale_factor": 0.00392156862745098,
            "feature_size": 128, "do_center_crop": null}"#,
    );
    let both = read(
        r#"{"image_processor_type": "Qwen2VLImageProcessorPil", "size": {"min_pixels": 1, "max_pixels": 12845056.0},
            "min_pixels": 3136}"#,
    );
    assert_eq!(old, size);
    assert_eq!(old, both);
    assert_eq!((old.resizer(), old.merge_size()), (Resizer::Pillow, 2));
    let fast = read(
        r#"{"image_processor_type": "Qwen2VLImageProcessorFast",
            "size": {"longest_edge": 12845056, "shortest_edge": 3136}}"#,
    );
    assert_eq!(fast.resizer(), Resizer::Torchvision);
    assert_eq!(fast.with_resizer(Resizer::Pillow), old);
}

#[test]
fn what_is_not_supported_is_named() {
    for (fields, expected) in [
        ("", ""),
        (
            r#""size": {"height": 1, "width": 1}"#,
            "size.shortest_edge is missing, and must be a number of pixels",
        ),
        (r#""size": 3"#, "size is 3, and must be an object"),
        (
            r#""max_pixels": 0"#,
            "max_pixels is 0, and must be a whole number from 1",
        ),
        (
            r#""max_pixels": 100"#,
            "min_pixels (size.shortest_edge) is 3136, above max_pixels",
        ),
        (
            r#""patch_size": 0"#,
            "patch_size is 0, and must be a whole number from 1 to 256",
        ),
        (r#""patch_size": 1.5"#, "patch_size is 1.5"),
        (r#""merge_size": 99999999999"#, "merge_size is 99999999999"),
        (r#""temporal_patch_size": -2"#, "temporal_patch_size is -2"),
        (
            r#""image_mean": [0.5, 0.5]"#,
            "image_mean is [0.5,0.5], and must be three numbers",
        ),
        (
            r#""image_std": [0.5, 0, 1]"#,
            "image_std is [0.5,0,1], and must be above 0",
        ),
        (
            r#""rescale_factor": 0"#,
            "rescale_factor is 0, and must be above 0",
        ),
        (
            r#""rescale_factor": 1e300"#,
            "rescale_factor, image_mean and image_std make numbers beyond the range of f32",
        ),
        (
            r#""image_mean": 1e300"#,
            "rescale_factor, image_mean and image_std make numbers beyond the range of f32",
        ),
        // Nothing is normalised.
        (r#""do_normalize": false, "image_mean": 1e300"#, ""),
        (
            r#""resample": 2"#,
            "resample is 2, and must be a whole number from 3 to 3",
        ),
        (
            r#""do_center_crop": true"#,
            "do_center_crop is true, and must be false",
        ),
        (
            r#""do_convert_rgb": false"#,
            "do_convert_rgb is false, and must be true",
        ),
        (
            r#""do_resize": 1"#,
            "do_resize is 1, and must be true or false",
        ),
    ] {
        let comma = if fields.is_empty() { "" } else { "," };
        let json =
            format!(r#"{{"image_processor_type": "Qwen2VLImageProcessor"{comma} {fields}}}"#);
        match Processor::from_json("p.json", &json) {
            Ok(_) => assert_eq!(expected, "", "{fields}"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    !expected.is_empty() && text.starts_with(&format!("p.json: {expected}")),
                    "{fields}: {text}"
                );
            }
        }
    }
    for (json, expected) in [
        ("[]", "p.json: expected a JSON object"),
        (
            "{}",
            "image_processor_type is missing, and must be one of Qwen2VLImageProcessor, ",
        ),
        (
            r#"{"image_processor_type": "CLIPImageProcessor\u001b"}"#,
            r#"is "CLIPImageProcessor\u001b", and must be"#,
        ),
        (
            r#"{"image_processor_type": 3}"#,
            "image_processor_type is 3, and must be a text",
        ),
    ] {
        let text = Processor::from_json("p.json", json)
            .unwrap_err()
            .to_string();
        assert!(text.contains(expected), "{json}: {text}");
    }
}

#[test]
fn folders_of_both_releases_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, json: &str| fs::write(folder.path().join(name), json).unwrap();
    let missing = Processor::open(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("preprocessor_config.json"), "{missing}");
    write(
        "preprocessor_config.json",
        r#"{"image_processor_type": "Qwen2VLImageProcessor"}"#,
    );
    write(
        "processor_config.json",
        r#"{"processor_class": "Qwen2VLProcessor"}"#,
    );
    assert_eq!(
        Processor::open(folder.path()).unwrap().resizer(),
        Resizer::Pillow
    );
    write(
        "processor_config.json",
        r#"{"image_processor": {"image_processor_type": "Qwen2VLImageProcessorFast"}}"#,
    );
    assert_eq!(
        Processor::open(folder.path()).unwrap().resizer(),
        Resizer::Torchvision
    );
    write("processor_config.json", r#"{"image_processor": 3}"#);
    let text = Processor::open(folder.path()).unwrap_err().to_string();
    assert!(
        text.contains("processor_config.json: image_processor must be an object"),
        "{text}"
    );
}
