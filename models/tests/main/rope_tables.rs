//! Compares rotary tables with those of `transformers`.

use crate::common::{File, fixtures, read, to_f64};
use crate::comparison::{difference, largest};
use burn::tensor::{DType, Device, Int, Tensor};
use kernels_models::{RopeConfig, RopeScaling, RotaryEmbedding};

fn cases() -> [(&'static str, RopeConfig); 7] {
    let default = |theta| RopeConfig {
        theta,
        ..RopeConfig::default()
    };
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    [
        ("default_1e4", default(1e4)),
        ("default_5e5", default(5e5)),
        ("default_1e6", default(1e6)),
        (
            "linear_8",
            RopeConfig {
                theta: 1e6,
                scaling: RopeScaling::Linear { factor: 8.0 },
                ..RopeConfig::default()
            },
        ),
        (
            "llama3",
            RopeConfig {
                theta: 5e5,
                scaling: llama3,
                ..RopeConfig::default()
            },
        ),
        (
            "yarn_dsv3",
            RopeConfig {
                theta: 1e4,
                scaling: RopeScaling::Yarn {
                    factor: 40.0,
                    beta_fast: 32.0,
                    beta_slow: 1.0,
                    truncate: true,
                    original_max_position_embeddings: 4096,
                    attention_factor: 1.0,
                    mscale: None,
                },
                ..RopeConfig::default()
            },
        ),
        (
            "yarn_qwen",
            RopeConfig {
                theta: 1e6,
                scaling: RopeScaling::Yarn {
                    factor: 4.0,
                    beta_fast: 32.0,
                    beta_slow: 1.0,
                    truncate: true,
                    original_max_position_embeddings: 32_768,
                    attention_factor: 0.1 * 4_f64.ln() + 1.0,
                    mscale: None,
                },
                ..RopeConfig::default()
            },
        ),
    ]
}

/// The YaRN of gpt-oss.
fn gpt_oss() -> RopeConfig {
    RopeConfig {
        theta: 150_000.0,
        scaling: RopeScaling::Yarn {
            factor: 32.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: false,
            original_max_position_embeddings: 4096,
            attention_factor: 0.1 * 32_f64.ln() + 1.0,
            mscale: None,
        },
        ..RopeConfig::default()
    }
}

/// Phi-3's `longrope`, whose frequencies depend on the longest sequence of a pass.
fn longrope() -> RopeConfig {
    let factors = |step: f64| (0..32).map(|pair| 1.0 + step * f64::from(pair)).collect();
    RopeConfig {
        scaling: RopeScaling::LongRope {
            short_factor: factors(0.02),
            long_factor: factors(0.5),
            original_max_position_embeddings: 4096,
            attention_factor: (1.0 + 32_f64.ln() / 4096_f64.ln()).sqrt(),
        },
        ..RopeConfig::default()
    }
}

fn file() -> File {
    read(&fixtures().join("ops/rope_tables.safetensors"))
}

#[test]
fn frequencies_agree_to_the_last_bit() {
    let file = file();
    for (name, rope) in cases() {
        let expected = file[&format!("{name}.inv_freq")].values();
        let found = RotaryEmbedding::new(&rope, 64);
        let found: Vec<f64> = found.inv_freq().iter().map(|&x| x.into()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// The powers of this base that PyTorch computes in `f32` are not all the nearest.
#[test]
fn frequencies_of_gpt_oss_agree_to_a_unit_in_the_last_place() {
    let expected = file()["yarn_gpt_oss.inv_freq"].values();
    let found = RotaryEmbedding::new(&gpt_oss(), 64);
    for (&found, expected) in found.inv_freq().iter().zip(expected) {
        let unit = f64::from(f32::EPSILON) * expected;
        assert!(
            (f64::from(found) - expected).abs() <= unit,
            "{found}, not {expected}"
        );
    }
}

/// The files of Llama 4 leave no wavelengths between the short and the long ones: each frequency is kept or divided.
#[test]
fn equal_factors_divide_the_frequencies_of_long_wavelengths() {
    let frequencies = |scaling| {
        let rope = RopeConfig {
            theta: 5e5,
            scaling,
            ..RopeConfig::default()
        };
        RotaryEmbedding::new(&rope, 128).inv_freq().to_vec()
    };
    let found = frequencies(RopeScaling::Llama3 {
        factor: 16.0,
        low_freq_factor: 1.0,
        high_freq_factor: 1.0,
        original_max_position_embeddings: 8192,
    });
    for (found, kept) in found.into_iter().zip(frequencies(RopeScaling::Default)) {
        let is_long = 2.0 * std::f32::consts::PI / kept > 8192.0;
        assert_eq!(found, if is_long { kept / 16.0 } else { kept });
    }
}

/// Angles are the same `f32` numbers in both, so that only the rounding of sine and cosine differs.
#[test]
fn tables_agree() {
    const IMPLIED: usize = 8192;
    let device = Device::default();
    let file = file();
    for (name, rope) in cases() {
        let rotary = RotaryEmbedding::new(&rope, 64);
        let stored = |key: &str| file[&format!("{name}.{key}")].values();
        let positions: Vec<usize> = stored("positions").iter().map(|&p| p as usize).collect();
        let ids: Vec<i32> = positions.iter().map(|&p| p as i32).collect();
        let ids = Tensor::<1, Int>::from_data(ids.as_slice(), &device).unsqueeze();
        let explicit = rotary.tables_at(ids, DType::F32);
        let implied = rotary.tables(0..IMPLIED, &device, DType::F32);
        for (key, explicit, implied) in [
            ("cos", explicit.cos, implied.cos),
            ("sin", explicit.sin, implied.sin),
        ] {
            let expected = stored(key);
            let error = difference(&to_f64(&explicit.into_data()), &expected);
            assert!(error < 3e-7, "{name}.{key}: off by {error:e}");
            let implied = to_f64(&implied.into_data());
            for (row, &position) in positions.iter().enumerate().filter(|&(_, &p)| p < IMPLIED) {
                let found = &implied[position * 64..][..64];
                let error = difference(found, &expected[row * 64..][..64]);
                assert!(error < 3e-7, "{name}.{key}[{position}]: off by {error:e}");
            }
        }
    }
}

/// Tables of passes within the first training's context, and of one that goes beyond it by its last position.
#[test]
fn longrope_follows_the_longest_sequence() {
    let device = Device::default();
    let file = file();
    let rotary = RotaryEmbedding::new(&longrope(), 64);
    for name in ["longrope_short", "longrope_long"] {
        let stored = |key: &str| file[&format!("{name}.{key}")].values();
        let positions: Vec<usize> = stored("positions").iter().map(|&p| p as usize).collect();
        let ids: Vec<i32> = positions.iter().map(|&p| p as i32).collect();
        let ids = Tensor::<1, Int>::from_data(ids.as_slice(), &device).unsqueeze();
        let last = positions.iter().max().unwrap();
        let explicit = rotary.tables_at(ids, DType::F32);
        let implied = rotary.tables(0..last + 1, &device, DType::F32);
        for (key, explicit, implied) in [
            ("cos", explicit.cos, implied.cos),
            ("sin", explicit.sin, implied.sin),
        ] {
            let expected = stored(key);
            let error = difference(&to_f64(&explicit.into_data()), &expected);
            assert!(error < 3e-7, "{name}.{key}: off by {error:e}");
            let implied = to_f64(&implied.into_data());
            for (row, &position) in positions.iter().enumerate() {
                let found = &implied[position * 64..][..64];
                let error = difference(found, &expected[row * 64..][..64]);
                assert!(error < 3e-7, "{name}.{key}[{position}]: off by {error:e}");
            }
        }
    }
}

/// Tables in bf16 are the `f32` tables, rounded once: half a unit in the last place is 2^-9 below 1, and 2^-8 above.
#[test]
fn bf16_tables_are_rounded_at_the_end() {
    let device = Device::default();
    for (_, rope) in cases() {
        let rotary = RotaryEmbedding::new(&rope, 64);
        let exact = to_f64(&rotary.tables(0..1000, &device, DType::F64).cos.into_data());
        let rounded = to_f64(&rotary.tables(0..1000, &device, DType::BF16).cos.into_data());
        // The f32 angle of position 999 has an error of up to 999 · 2^-24.
        let half_unit = 2.0_f64.powi(if largest(&exact) > 1.0 { -8 } else { -9 });
        assert!(difference(&rounded, &exact) <= half_unit + 1e-4);
    }
}
