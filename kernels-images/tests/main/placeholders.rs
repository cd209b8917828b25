//! Placeholders become as many tokens as pictures have.

use kernels_images::Placeholders;

const QWEN: &str = r#"{"image_token_id": 9, "vision_start_token_id": 7, "vision_config": {"spatial_merge_size": 2}}"#;

fn read(json: &str) -> Placeholders {
    Placeholders::from_json("config.json", json, 2).unwrap()
}

#[test]
fn each_placeholder_becomes_the_tokens_of_its_picture() {
    let tokens = read(QWEN);
    let expanded = tokens
        .expand(&[1, 7, 9, 8, 2, 7, 9, 8], &[[1, 2, 4], [1, 4, 6]])
        .unwrap();
    assert_eq!(expanded.ids, [1, 7, 9, 9, 8, 2, 7, 9, 9, 9, 9, 9, 9, 8]);
    assert_eq!(expanded.pictures, [2..4, 7..13]);
    assert_eq!(tokens.image(), 9);
    let none = tokens.expand(&[1, 2], &[]).unwrap();
    assert_eq!((none.ids, none.pictures.len()), (vec![1, 2], 0));
}

#[test]
fn pictures_and_placeholders_must_go_together() {
    let tokens = read(QWEN);
    let refused =
        |ids: &[u32], grids: &[[usize; 3]]| tokens.expand(ids, grids).unwrap_err().to_string();
    let text = refused(&[7, 9, 7, 9], &[[1, 2, 2]]);
    assert!(
        text.contains("has 2 placeholders (token 9) for 1 picture;"),
        "{text}"
    );
    let text = refused(&[7, 9], &[[1, 2, 2], [1, 2, 2]]);
    assert!(
        text.contains("has 1 placeholder (token 9) for 2 pictures;"),
        "{text}"
    );
    for ids in [&[9][..], &[7, 1, 9]] {
        let text = refused(ids, &[[1, 2, 2]]);
        assert!(
            text.contains("doesn't follow vision_start_token_id (7)"),
            "{text}"
        );
    }
    for grid in [
        [1, 3, 2],
        [1, 2, 5],
        [0, 2, 2],
        [1, 0, 2],
        [usize::MAX, 4, 4],
    ] {
        let text = refused(&[7, 9], &[grid]);
        assert!(
            text.contains("can't be divided into tokens of 2×2 patches"),
            "{text}"
        );
    }
    let text = refused(&[7, 9], &[[1, 1 << 20, 1 << 20]]);
    assert!(text.contains("more than 67108864 tokens"), "{text}");
}

#[test]
fn configurations_of_all_families_are_read() {
    assert_eq!(
        read(r#"{"thinker_config": {"image_token_index": 9, "vision_start_token_id": 7}}"#),
        read(QWEN)
    );
    // Without the token before it, a placeholder can be anywhere.
    assert!(
        read(r#"{"image_token_id": 9}"#)
            .expand(&[9], &[[1, 2, 2]])
            .is_ok()
    );
    for (json, expected) in [
        (
            r#"{"vocab_size": 9}"#,
            "c.json: image_token_id is missing: the model does not take pictures",
        ),
        (
            r#"{"image_token_id": -1}"#,
            "c.json: image_token_id is -1, and must be a whole number",
        ),
        (
            r#"{"image_token_id": 9, "vision_config": {"spatial_merge_size": 3}}"#,
            "vision_config.spatial_merge_size is 3, but merge_size of the image processor is 2",
        ),
        (
            r#"{"thinker_config": []}"#,
            "thinker_config is [], and must be an object",
        ),
    ] {
        let text = Placeholders::from_json("c.json", json, 2)
            .unwrap_err()
            .to_string();
        assert!(text.contains(expected), "{json}: {text}");
    }
    let text = Placeholders::from_json("c.json", QWEN, 0)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("merge_size of the image processor is 0"),
        "{text}"
    );
}
