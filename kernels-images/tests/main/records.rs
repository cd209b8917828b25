//! Pictures of records: their places, and the parts of messages.

use crate::fixtures::file;
use data_encoding::BASE64;
use kernels_images::{Decoding, Error, Images, Part, Source};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const FOLDER: &str = "/data";

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn image(path: &str) -> Part {
    Part::Image(Source::File(path.into()))
}

/// Reads messages of a record, one after the other.
fn parts(record: &Value, contents: &[Value]) -> Result<Vec<Vec<Part>>, Error> {
    let mut images = Images::of_record(record.as_object().unwrap(), Path::new(FOLDER))?;
    let parts = contents
        .iter()
        .map(|content| images.parts(content))
        .collect::<Result<_, _>>()?;
    images.finish()?;
    Ok(parts)
}

#[test]
fn marks_in_texts_take_the_pictures_of_the_record_in_order() {
    let record = json!({"images": ["a.png", {"path": "/b.png"}, {"url": "file:///c%20d.png", "detail": "auto"}]});
    let contents = [
        json!("<image>What?\n<image>"),
        json!("That: <image>!"),
        json!("no"),
    ];
    let expected = vec![
        vec![image("/data/a.png"), text("What?\n"), image("/b.png")],
        vec![text("That: "), image("/c d.png"), text("!")],
        vec![text("no")],
    ];
    assert_eq!(parts(&record, &contents).unwrap(), expected);
    let one = json!({"image": "a.png", "images": null});
    assert_eq!(
        parts(&one, &[json!("<image>")]).unwrap(),
        [[image("/data/a.png")]]
    );
    // Without pictures, the mark is a text like any other.
    for record in [json!({}), json!({"images": []})] {
        assert_eq!(
            parts(&record, &[json!("an <image>")]).unwrap(),
            [[text("an <image>")]]
        );
    }
}

#[test]
fn lists_of_parts_have_pictures_of_their_own_or_of_the_record() {
    let content = json!([
        {"type": "image_url", "image_url": {"url": "a.png"}},
        {"type": "text", "text": "<image>"},
        {"type": "image", "image": "b.png", "text": null},
        {"type": "image"},
        {"type": "image_url", "image_url": "file:/d.png"},
        {"type": "image", "path": "e.png"},
    ]);
    let found = parts(&json!({"images": ["c.png"]}), &[content]).unwrap();
    let expected = [
        image("/data/a.png"),
        text("<image>"),
        image("/data/b.png"),
        image("/data/c.png"),
        image("/d.png"),
        image("/data/e.png"),
    ];
    assert_eq!(found, [expected]);
    let templates: Vec<Value> = found[0][..2].iter().map(Part::for_template).collect();
    assert_eq!(
        templates,
        [
            json!({"type": "image"}),
            json!({"type": "text", "text": "<image>"})
        ]
    );
    let mut none = Images::none(Path::new(FOLDER));
    assert_eq!(none.parts(&json!("<image>")).unwrap(), [text("<image>")]);
}

#[test]
fn what_is_wrong_is_named() {
    let none = json!({});
    let one = json!({"images": ["a.png"]});
    for (record, content, expected) in [
        (
            &one,
            json!("no place"),
            "names 1 picture, but its messages have 0 places",
        ),
        (
            &one,
            json!("<image><image>"),
            "names 1 picture, but its messages have more places",
        ),
        (
            &none,
            json!([{"type": "image"}]),
            "names 0 pictures, but its messages have more places",
        ),
        (
            &none,
            json!(3),
            "`content` must be a text or a list of parts",
        ),
        (&none, json!(["a"]), "part 1 of `content` must be an object"),
        (
            &none,
            json!([{"type": "text"}]),
            "part 1 of `content`: `text` must be a text",
        ),
        (
            &none,
            json!([{"type": "video", "video": "a"}]),
            "has the type `video`; supported are text, image_url and image",
        ),
        (&none, json!([{"text": "a"}]), "has the type ``"),
        (
            &none,
            json!([{"type": "text", "text": "a", "image": "b"}]),
            "`image`, which is \"b\", is not supported",
        ),
        (
            &none,
            json!([{"type": "image", "image": "b", "min_pixels": 3}]),
            "`min_pixels`, which is 3, is not supported",
        ),
        (
            &none,
            json!([{"type": "image_url", "image_url": {"url": "a", "detail": "high"}}]),
            "`detail`, which is \"high\"",
        ),
        (
            &none,
            json!([{"type": "image", "image": "a", "path": "b"}]),
            "must name one picture",
        ),
        (
            &none,
            json!([{"type": "image_url"}]),
            "must name one picture",
        ),
        (
            &none,
            json!([{"type": "image", "image": {"url": "a", "path": "b"}}]),
            "must be a path, a file: URL or a data: URL",
        ),
        (
            &none,
            json!([{"type": "image", "image": {"url": 5, "path": "b"}}]),
            "must be a path, a file: URL or a data: URL",
        ),
        (
            &json!({"images": [3]}),
            json!(""),
            "picture 1 of `images` is 3, and must be a path",
        ),
        (
            &json!({"images": ["a"], "image": "b"}),
            json!(""),
            "has `images` and `image`; keep one",
        ),
        (
            &json!({"image": {"bytes": "iVBO"}}),
            json!(""),
            "picture 1 of `image`: `bytes`, which is \"iVBO\", is not supported",
        ),
    ] {
        let text = parts(record, &[content]).unwrap_err().to_string();
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn places_are_paths_and_urls_of_this_machine() {
    let read = |place: &str| Source::parse(place, Path::new(FOLDER));
    for (place, expected) in [
        ("a/b.png", "/data/a/b.png"),
        ("a:b.png", "/data/a:b.png"),
        ("/a.png", "/a.png"),
        ("file:///a.png", "/a.png"),
        ("FILE://localhost/%C3%A4.png", "/ä.png"),
    ] {
        assert_eq!(
            read(place).unwrap(),
            Source::File(expected.into()),
            "{place}"
        );
    }
    for (place, expected) in [
        (
            "https://a.org/b.png",
            "picture `https://a.org/b.png`: https: is not read; download the picture",
        ),
        ("HTTP://a.org/b.png", "http: is not read"),
        (
            "s3://a/b.png",
            "another scheme than file: and data: is not read",
        ),
        ("file://server/a.png", "must have a whole path"),
        ("file:a.png", "must have a whole path"),
        ("file:///%4", "two hexadecimal digits"),
        ("file:///%+4a", "two hexadecimal digits"),
        ("file:///%ff", "not UTF-8"),
        ("", "the place of a picture is empty"),
        ("data:image/png;base64", "must have a comma"),
        ("data:text/plain;base64,AAAA", "must be of a picture"),
        ("data:image/png,AAAA", "must be in base64"),
        ("data:image/png;base64,A*AA", "its base64 is not valid"),
        ("data:image/png;base64,\x1b[2J", "\\u{1b}"),
    ] {
        let text = read(place).unwrap_err().to_string();
        assert!(
            text.contains(expected) && !text.contains('\x1b'),
            "{place}: {text}"
        );
    }
    let long = read(&format!("data:image/png;base64,{}*", "A".repeat(9999)))
        .unwrap_err()
        .to_string();
    assert!(long.len() < 300, "{long}");
}

#[test]
fn sources_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = file("colour 2, 8 bits");
    fs::write(folder.path().join("a.png"), &bytes).unwrap();
    let read = |place: &str| {
        Source::parse(place, folder.path())
            .unwrap()
            .read(&Decoding::default())
    };
    let picture = read("a.png").unwrap();
    assert_eq!(picture.size(), [5, 7]);
    let url = format!("data:image/png;base64,{}", BASE64.encode(&bytes));
    assert_eq!(read(&url).unwrap(), picture);
    let text = read("data:image/png;base64,AAAA").unwrap_err().to_string();
    assert!(
        text.starts_with("a picture in a data: URL (3 bytes): "),
        "{text}"
    );
    let text = read("b.png").unwrap_err().to_string();
    assert!(text.contains("b.png: cannot read"), "{text}");
    let text = read(".").unwrap_err().to_string();
    assert!(text.contains("is a folder"), "{text}");
}
