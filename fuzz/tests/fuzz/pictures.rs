//! Pictures, the settings of image processors, and pictures of records.

use crate::{target, text};
use kernels_fuzz::{Target, fuzz};
use kernels_images::{Decoding, Images, Picture, Placeholders, Processor};
use serde_json::Value;
use std::path::Path;

/// The memory of decoded pixels and of the decoders, in bytes.
const DECODED: u64 = 32 << 20;

#[test]
fn picture() {
    let words = [
        "IHDR",
        "PLTE",
        "tRNS",
        "IDAT",
        "IEND",
        "eXIf",
        "\u{1}\u{3}\u{11}",
    ];
    let target = Target {
        name: "picture",
        words: &words,
        memory: DECODED,
    };
    let decoding = Decoding {
        max_pixels: 1 << 18,
        ..Decoding::default()
    };
    fuzz(target, |input| {
        let picture =
            Picture::decode("a.png", input, &decoding).map_err(|error| error.to_string())?;
        let [width, height] = picture.size();
        assert_eq!(picture.rgb().len(), 3 * width * height);
        assert!(width * height <= 1 << 18);
        Ok(())
    });
}

#[test]
fn image_processor() {
    let words = [
        "\"image_processor_type\": \"Qwen2VLImageProcessorFast\"",
        "\"size\": {\"shortest_edge\": 3136, \"longest_edge\": 12845056}",
        "\"max_pixels\": 3.0",
        "\"image_token_id\": 151655",
        "\"vision_config\": {\"spatial_merge_size\": 2}",
        "null",
        "1e308",
        "-0.0",
        "\\u001b",
        "\u{9b}",
    ];
    fuzz(target("image_processor", &words), |input| {
        let json = text(input)?;
        let tokens = Placeholders::from_json("config.json", json, 2).map(|tokens| {
            let expanded = tokens.expand(&[tokens.image()], &[[1, 2, 4]]);
            assert!(expanded.is_ok_and(|expanded| expanded.ids.len() == 2));
        });
        let processor = Processor::from_json("preprocessor_config.json", json).map(|processor| {
            if let Ok(size) = processor.size("a.png", [640, 480]) {
                assert!(
                    size.iter()
                        .all(|side| *side > 0 && side % processor.merge_size() == 0)
                );
            }
        });
        // The two have fields of their own, and one text can have both.
        processor.or(tokens).map_err(|error| error.to_string())
    });
}

#[test]
fn record_pictures() {
    let words = [
        "\"images\": [\"a.png\"]",
        "{\"type\": \"image\"}",
        "{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,AAAA\"}}",
        "file:///%20",
        "<image>",
        "https://",
        "null",
        "\\u001b",
        "\u{202e}",
    ];
    fuzz(target("record_pictures", &words), |input| {
        let record: Value = serde_json::from_slice(input).map_err(|error| error.to_string())?;
        let fields = record.as_object().ok_or("expected an object")?;
        let mut images =
            Images::of_record(fields, Path::new("/data")).map_err(|error| error.to_string())?;
        let content = fields.get("content").unwrap_or(&Value::Null);
        images.parts(content).map_err(|error| error.to_string())?;
        images.finish().map_err(|error| error.to_string())
    });
}
