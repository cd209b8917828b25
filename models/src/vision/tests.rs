//! Places of patches and tokens against those of `transformers`.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::*;

/// The numbers of the tensors of the fixture.
struct Fixture(Vec<u8>);

impl Fixture {
    fn open() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models");
        Self(std::fs::read(folder.join("vision_index.safetensors")).unwrap())
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        let data = tensor.data();
        match tensor.dtype() {
            Dtype::I64 => {
                let numbers = data.as_chunks().0.iter();
                numbers
                    .map(|&bytes| i64::from_le_bytes(bytes) as f64)
                    .collect()
            }
            Dtype::F32 => {
                let numbers = data.as_chunks().0.iter();
                numbers
                    .map(|&bytes| f32::from_le_bytes(bytes).into())
                    .collect()
            }
            other => panic!("no test reads {other}"),
        }
    }

    fn integers(&self, name: &str) -> Vec<i64> {
        self.numbers(name)
            .into_iter()
            .map(|number| number as i64)
            .collect()
    }

    fn grids(&self, name: &str) -> Vec<Grid> {
        let numbers = self.integers(name);
        let rows = numbers.as_chunks().0.iter();
        rows.map(|&row| Grid::new(row, 2).unwrap()).collect()
    }
}

/// Returns the lengths between sums.
fn lengths(sums: &[i64]) -> Vec<usize> {
    sums.windows(2)
        .map(|pair| (pair[1] - pair[0]) as usize)
        .collect()
}

#[test]
fn patches_are_those_of_transformers() {
    let fixture = Fixture::open();
    for case in ["edges", "clip"] {
        let grids = fixture.grids(&format!("{case}.grid_thw"));
        let places: Vec<i64> = positions(&grids, 2)
            .concat()
            .iter()
            .map(|&at| at as i64)
            .collect();
        assert_eq!(places, fixture.integers(&format!("{case}.position_ids")));
        let sums = fixture.integers(&format!("{case}.cu_seqlens"));
        assert_eq!(frame_lengths(&grids), lengths(&sums));
        for (window, side) in [("112p14", 4), ("16p4", 2)] {
            let expected = |name: &str| fixture.integers(&format!("{case}.window{window}.{name}"));
            let found = windows(&grids, 2, side);
            let blocks: Vec<i64> = found.blocks.iter().map(|&block| block as i64).collect();
            assert_eq!(blocks, expected("window_index"), "{case}, {window}");
            assert_eq!(
                found.lengths,
                lengths(&expected("cu_window_seqlens")),
                "{case}, {window}"
            );
        }
        for side in [48, 4] {
            let (entries, weights) = interpolation(&grids, 2, side);
            let entries: Vec<i64> = entries.concat().iter().map(|&entry| entry as i64).collect();
            assert_eq!(
                entries,
                fixture.integers(&format!("{case}.side{side}.indices"))
            );
            // `transformers` computes the weights in f32, of places up to 47.
            let expected = fixture.numbers(&format!("{case}.side{side}.weights"));
            let found = weights.concat();
            assert_eq!(found.len(), expected.len());
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(a, b)| (a - b).abs() < 1e-5)
            );
        }
    }
}

/// Rows with two pictures, and with a clip of two frames, the second padded on the left.
#[test]
fn positions_of_tokens_are_those_of_transformers() {
    let fixture = Fixture::open();
    for family in ["qwen2_5_vl", "qwen3_vl"] {
        let name = |tensor: &str| format!("rope_index.{family}.{tensor}");
        let ids = fixture.integers(&name("input_ids"));
        let mask = fixture.integers(&name("attention_mask"));
        let is_token: Vec<bool> = mask.iter().map(|&token| token == 1).collect();
        let pictures = fixture.grids(&name("image_grid_thw"));
        let clip = fixture.grids(&name("video_grid_thw"))[0];
        let clip = match family {
            // 4 positions a second, and half a second between frames.
            "qwen2_5_vl" => Clip::Whole {
                grid: clip,
                interval: 2.0,
            },
            _ => Clip::Frames { grid: clip },
        };
        let tokens = Tokens {
            ids: &ids,
            columns: ids.len() / 2,
            is_token: Some(&is_token),
            marks: Marks {
                image: 120,
                video: 121,
            },
        };
        let found = tokens.positions(&pictures, &[clip], 2).unwrap();
        assert_eq!(
            found.ids,
            fixture.integers(&name("position_ids")),
            "{family}"
        );
        assert_eq!(
            found.deltas,
            fixture.integers(&name("rope_deltas")),
            "{family}"
        );
        let marked = |mark: i64| {
            (0..ids.len())
                .filter(|&at| ids[at] == mark)
                .collect::<Vec<_>>()
        };
        assert_eq!(found.images, marked(120));
        assert_eq!(found.videos, marked(121));
    }
}

#[test]
fn other_numbers_of_tokens_are_refused() {
    let grid = |rows, columns| Grid {
        frames: 1,
        rows,
        columns,
    };
    let said = |ids: &[i64], pictures: &[Grid]| {
        let tokens = Tokens {
            ids,
            columns: ids.len(),
            is_token: None,
            marks: Marks { image: 7, video: 8 },
        };
        tokens.positions(pictures, &[], 2).unwrap_err().to_string()
    };
    for (ids, pictures, words) in [
        (
            &[1, 7, 7, 2][..],
            &[][..],
            "column 1: token 7 stands for a part of a picture, and no picture is left",
        ),
        (&[1, 8], &[], "no clip is left"),
        (
            &[1, 7, 2, 7],
            &[grid(2, 4)],
            "column 1: expected 2 tokens 7 for a picture, found 1",
        ),
        (
            &[1, 7],
            &[grid(2, 2), grid(2, 2)],
            "pictures without tokens 7: the last 1",
        ),
        (
            &[1, 7, 7],
            &[grid(3, 4)],
            "is not whole blocks of 2 by 2 patches",
        ),
        (&[1, 7], &[grid(0, 2)], "a picture or clip has no tokens"),
    ] {
        let said = said(ids, pictures);
        assert!(said.contains(words), "{said}");
    }
    for (numbers, words) in [
        ([0, 2, 2], "the number of frames must be from 1"),
        ([1, -2, 2], "the number of rows must be from 1"),
        (
            [1, 2, 3],
            "2 rows of 3 patches are not whole blocks of 2 by 2",
        ),
        ([1, 2, 1 << 40], "the number of columns must be from 1"),
    ] {
        let said = Grid::new(numbers, 2).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
}

/// Two pictures beside each other are told apart by their sizes.
#[test]
fn pictures_may_stand_beside_each_other() {
    let grid = Grid {
        frames: 1,
        rows: 2,
        columns: 4,
    };
    let tokens = Tokens {
        ids: &[7, 7, 7, 7, 1],
        columns: 5,
        is_token: None,
        marks: Marks { image: 7, video: 8 },
    };
    let found = tokens.positions(&[grid, grid], &[], 2).unwrap();
    assert_eq!(found.ids[..5], [0, 0, 2, 2, 4]);
    assert_eq!(found.ids[10..], [0, 1, 2, 3, 4]);
    assert_eq!(found.deltas, [0]);
}
