//! Files that are damaged or made to harm are refused with a sentence, before anything large is allocated.

use crate::fixtures::file;
use kernels_images::{Decoding, Picture};

fn refusal(bytes: &[u8]) -> String {
    let name = "a\x1b[2J.png";
    let error = Picture::decode(name, bytes, &Decoding::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("a\\u{1b}[2J.png: "), "{text}");
    text
}

fn png() -> Vec<u8> {
    file("colour 2, 8 bits")
}

fn jpeg() -> Vec<u8> {
    file("JPEG, sampling 2, progressive False")
}

/// Returns the place of a marker of a JPEG.
fn marker(bytes: &[u8], code: u8) -> usize {
    bytes
        .windows(2)
        .position(|pair| pair == [0xff, code])
        .unwrap()
}

fn with(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

#[test]
fn the_sides_are_checked_before_decoding() {
    let sides = |width: u32, height: u32| {
        refusal(&with(
            png(),
            16,
            &[width.to_be_bytes(), height.to_be_bytes()].concat(),
        ))
    };
    assert!(sides(0, 5).contains("has no pixels: it is 0 wide and 5 high"));
    assert!(sides(5, 0).contains("has no pixels"));
    assert!(
        sides(1_000_000_000, 1)
            .contains("is 1000000000×1, and pictures must be at most 65535 pixels wide")
    );
    assert!(
        sides(31_623, 31_623)
            .contains("is 31623×31623, and pictures must have at most 89478485 pixels")
    );
    let frame = marker(&jpeg(), 0xc0);
    let sides = |sides: [u8; 4]| refusal(&with(jpeg(), frame + 5, &sides));
    assert!(sides([0, 0, 0, 9]).contains("has no pixels: it is 9 wide and 0 high"));
    assert!(sides([0xff; 4]).contains("is 65535×65535, and pictures must have at most"));
    let narrow = Decoding {
        max_side: 4,
        ..Decoding::default()
    };
    let error = Picture::decode("a.png", &png(), &narrow)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("is 5×7, and pictures must be at most 4 pixels"),
        "{error}"
    );
}

#[test]
fn files_that_end_early_are_refused() {
    for whole in [png(), jpeg(), file("JPEG, sampling 0, progressive True")] {
        // Pillow does without the last chunk of a PNG as well.
        let needed = if whole.starts_with(b"\x89PNG") {
            whole.len() - 16
        } else {
            whole.len()
        };
        for length in 3..needed {
            let cut = &whole[..length];
            let text = refusal(cut);
            let is_foreign = length < 8 && text.contains("neither PNG nor JPEG");
            assert!(
                is_foreign || text.contains("ends before the picture does"),
                "{length}: {text}"
            );
        }
    }
}

#[test]
fn other_files_are_named() {
    assert!(refusal(b"").contains("the file is empty"));
    assert!(refusal(b"\x1b[2Jhello").contains("neither PNG nor JPEG"));
    assert!(refusal(b"GIF89a").contains("in another format (Gif); PNG and JPEG are supported"));
}

#[test]
fn damaged_files_are_refused() {
    let bytes = png();
    let data = bytes.windows(4).position(|kind| kind == b"IDAT").unwrap();
    let flipped = with(bytes.clone(), data + 8, &[bytes[data + 8] ^ 1]);
    assert!(refusal(&flipped).contains("can't be decoded"));
    assert!(refusal(&with(png(), 12, b"IDAT")).contains("its first chunk is not its header"));
    // A small file with many scans.
    let bytes = jpeg();
    let (scan, end) = (marker(&bytes, 0xda), bytes.len() - 2);
    let many = [&bytes[..end], &bytes[scan..end].repeat(100), &bytes[end..]].concat();
    assert!(refusal(&many).contains("more than 100 scans"));
    let frame = marker(&bytes, 0xc0);
    let two = [&bytes[..frame], &bytes[frame..frame + 19], &bytes[frame..]].concat();
    assert!(refusal(&two).contains("two frame headers"));
    assert!(refusal(&[&bytes[..2], &bytes[end..]].concat()).contains("has no picture"));
    assert!(refusal(&with(bytes, 4, &[0, 1])).contains("shorter than its length"));
}

/// Each byte of a picture in turn becomes another one. Reading ends with a picture or a sentence.
#[test]
fn no_byte_makes_decoding_panic() {
    let names = [
        "colour 3, 4 bits, transparent",
        "colour 6, 16 bits, interlaced",
        "orientation 6",
    ];
    let jpegs = [
        "JPEG, sampling 2, progressive False",
        "JPEG, sampling 2, progressive True",
    ];
    for name in names.into_iter().chain(jpegs) {
        let bytes = file(name);
        for at in 0..bytes.len() {
            for new in [0, 0xff, bytes[at] ^ 0x10] {
                let decoding = Decoding {
                    max_pixels: 1 << 16,
                    ..Decoding::default()
                };
                match Picture::decode(name, &with(bytes.clone(), at, &[new]), &decoding) {
                    Ok(picture) => assert_eq!(
                        picture.rgb().len(),
                        picture.size().iter().product::<usize>() * 3
                    ),
                    Err(error) => assert!(error.to_string().starts_with(name)),
                }
            }
        }
    }
}

/// The decoder may find another header than the walk through the markers does.
#[test]
fn the_sizes_of_a_hidden_header_are_compared_before_decoding() {
    let segment = |code: u8, data: &[u8]| {
        let length = u16::try_from(data.len() + 2).unwrap().to_be_bytes();
        [&[0xff, code], &length[..], data].concat()
    };
    let frame = |side: u16| {
        let [high, low] = side.to_be_bytes();
        [8, high, low, high, low, 1, 1, 0x11, 0]
    };
    let mut file = vec![0xff, 0xd8];
    // After four bytes, the decoder begins a byte late and so inside of the comment, where it finds a frame.
    file.extend(segment(0xe0, &[0; 4]));
    file.extend(segment(0xfe, &segment(0xc2, &frame(65_000))));
    // The decoder skips a segment here, where there is none.
    file.extend(segment(0xd0, &segment(0xc2, &frame(32))));
    file.extend(segment(0xdb, &[&[0][..], &[1; 64]].concat()));
    let table = [&[0][..], &[0, 1], &[0; 14], &[0]].concat();
    file.extend(segment(0xc4, &table));
    file.extend(segment(0xda, &[1, 1, 0, 0, 0, 0]));
    file.extend([0, 0xff, 0xd9]);
    let said = refusal(&file);
    assert!(said.contains("its parts have different sizes"), "{said}");
}
