//! Compares rotary position embeddings over CANN's operators with the reference in f64, for every key, dtype, table and
//! layout.

use crate::npu::common::Scenario;
use crate::npu::*;
use burn::tensor::Tensor as Exact;
use burn_cann::ops::rotary::Axes;
use burn_cann::{DType, Platform, Spec, Stream, Tensor, Version};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::rope::npu::{Plan, backward, decide, forward};
use kernels_runtime::ops::rope::{Operands, reference};
use kernels_runtime::semantics::*;

fn keys() -> impl Iterator<Item = RopeKey> {
    let styles = [
        RopeStyle::Half,
        RopeStyle::Interleaved,
        RopeStyle::InterleavedToHalf,
    ];
    let widths = [RotaryWidth::Full, RotaryWidth::Partial];
    let layouts = [HeadLayout::Bnsd, HeadLayout::Bsnd];
    let tables = [
        TableLayout::Halves,
        TableLayout::Neighbours,
        TableLayout::Pairs,
    ];
    let all = styles.into_iter().flat_map(move |style| {
        widths.into_iter().flat_map(move |width| {
            layouts.into_iter().flat_map(move |layout| {
                tables.into_iter().map(move |table| RopeKey {
                    style,
                    width,
                    layout,
                    table,
                    sections: Sections::None,
                })
            })
        })
    });
    all.filter(|key| key.table != TableLayout::Neighbours || key.style == RopeStyle::Interleaved)
}

fn checked<T: Specified + Clone>(
    x: &T,
    cos: &T,
    sin: &T,
    key: RopeKey,
) -> Result<Operands<Seen<T>>, Mismatch> {
    let [x, cos, sin] = [x, cos, sin].map(|tensor| Seen(tensor.clone()));
    Operands::new(x, cos, sin, key)
}

fn operands<T: Specified + Clone>(x: &T, cos: &T, sin: &T, key: RopeKey) -> Operands<Seen<T>> {
    checked(x, cos, sin, key).expect("they go together")
}

/// A call with its key, sizes and dtypes.
#[derive(Clone, Copy, Debug)]
struct Case {
    key: RopeKey,
    dtype: DType,
    tables: DType,
    /// Batch, heads, sequence, head.
    sizes: [usize; 4],
    by_batch: bool,
    lie: Lie,
}

impl Case {
    fn x_shape(&self) -> [usize; 4] {
        let [b, heads, s, d] = self.sizes;
        match self.key.layout {
            HeadLayout::Bnsd => [b, heads, s, d],
            HeadLayout::Bsnd => [b, s, heads, d],
        }
    }

    fn table_shape(&self) -> [usize; 3] {
        let [b, _, s, d] = self.sizes;
        let rotated = match self.key.width {
            RotaryWidth::Full => d,
            RotaryWidth::Partial => (d / 4 * 2).max(2),
        };
        let w = if self.key.table == TableLayout::Pairs {
            rotated / 2
        } else {
            rotated
        };
        [if self.by_batch { b } else { 1 }, s, w]
    }

    fn plan(&self, platform: &Platform) -> Plan {
        let x = spec(self.dtype, &self.x_shape());
        let table = spec(self.tables, &self.table_shape());
        decide(platform, &operands(&x, &table, &table, self.key)).expect("it is accepted")
    }

    /// Compares both passes with the reference.
    fn compare(&self, stream: &Stream) -> [Vec<String>; 2] {
        let (x, x_held) = put(stream, self.dtype, &self.x_shape(), 1, self.lie);
        let (dy, dy_held) = put(stream, self.dtype, &self.x_shape(), 2, self.lie);
        let (cos, cos_held) = put(stream, self.tables, &self.table_shape(), 3, self.lie);
        let (sin, sin_held) = put(stream, self.tables, &self.table_shape(), 4, self.lie);
        let [x, dy] = [x, dy].map(|tensor| operands(&tensor, &cos, &sin, self.key));
        let (y, first) = without_waiting(|| forward(stream, &x).expect("accepted"));
        let (dx, second) = without_waiting(|| backward(stream, &dy).expect("accepted"));
        let x = x_held.exact::<4>();
        let tables: [Exact<3>; 2] = [cos_held.plain(), sin_held.plain()];
        let [cos, sin] = tables;
        let (expected, _) = reference(x.clone(), x.clone().detach(), cos, sin, self.key);
        let found = gradient(&x, &(expected.clone() * dy_held.plain()).sum().backward());
        let shape = self.x_shape();
        assert_near(
            ("y", self),
            stream,
            &y,
            self.dtype,
            &shape,
            &elements(expected),
        );
        assert_near(("dx", self), stream, &dx, self.dtype, &shape, &found);
        [first, second]
    }
}

const LLAMA: Case = Case {
    key: RopeKey::LLAMA,
    dtype: DType::F32,
    tables: DType::F32,
    sizes: [2, 3, 5, 16],
    by_batch: false,
    lie: Lie::Contiguous,
};

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for by_batch in [false, true] {
                    for sizes in [[2, 3, 5, 16], [1, 1, 1, 4], [3, 2, 7, 10]] {
                        Case {
                            key,
                            dtype,
                            tables: dtype,
                            sizes,
                            by_batch,
                            ..LLAMA
                        }
                        .compare(stream);
                    }
                }
            }
        }
    });
}

#[test]
fn one_operator_where_cann_has_it() {
    on_the_emulator(|_, stream| {
        for style in [RopeStyle::Half, RopeStyle::Interleaved] {
            for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
                let table = match style {
                    RopeStyle::Half => TableLayout::Halves,
                    _ => TableLayout::Neighbours,
                };
                let key = RopeKey {
                    style,
                    layout,
                    table,
                    ..RopeKey::LLAMA
                };
                let [first, second] = Case { key, ..LLAMA }.compare(stream);
                assert!(first.len() == 1 && first[0].starts_with("aclnnRotaryPositionEmbedding"));
                assert_eq!(second, ["aclnnRotaryPositionEmbeddingGrad"]);
            }
        }
    });
}

#[test]
fn on_a_toolkit_without_the_newest_rotation() {
    let scenario = Scenario::new().hide("aclnnRotaryPositionEmbeddingV2GetWorkspaceSize");
    on(scenario, |_, stream| {
        let [first, _] = LLAMA.compare(stream);
        assert_eq!(first, ["aclnnRotaryPositionEmbedding"]);
    });
}

#[test]
fn tables_in_f32_are_not_rounded() {
    on_the_emulator(|_, stream| {
        for dtype in [DType::F16, DType::BF16] {
            for key in keys() {
                let case = Case {
                    key,
                    dtype,
                    ..LLAMA
                };
                case.compare(stream);
                assert!(case.plan(&platform()).widened);
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for lie in [Lie::Sliced, Lie::Turned] {
                    Case {
                        key,
                        dtype,
                        tables: dtype,
                        lie,
                        ..LLAMA
                    }
                    .compare(stream);
                }
            }
        }
    });
}

#[test]
fn of_nothing() {
    on_the_emulator(|_, stream| {
        for key in keys() {
            for sizes in [[0, 3, 5, 16], [2, 0, 5, 16], [2, 3, 0, 16]] {
                let case = Case {
                    key,
                    sizes,
                    ..LLAMA
                };
                let empty = |shape: &[usize]| Tensor::empty(stream, DType::F32, shape).unwrap();
                let (x, table) = (empty(&case.x_shape()), empty(&case.table_shape()));
                let ((y, dx), operators) = without_waiting(|| {
                    let y = forward(stream, &operands(&x, &table, &table, key)).unwrap();
                    let dy = operands(&y, &table, &table, key);
                    (y, backward(stream, &dy).unwrap())
                });
                assert!(operators.is_empty(), "{operators:?}");
                assert_near(case, stream, &y, DType::F32, &case.x_shape(), &[]);
                assert_near(case, stream, &dx, DType::F32, &case.x_shape(), &[]);
            }
        }
    });
}

#[test]
fn many_heads_in_pieces() {
    on_the_emulator(|_, stream| {
        for key in keys().filter(|key| key.width == RotaryWidth::Full) {
            for sizes in [[1, 1001, 2, 2], [40, 30, 1, 2], [1001, 1, 2, 2]] {
                let case = Case {
                    key,
                    sizes,
                    ..LLAMA
                };
                case.compare(stream);
                let [b, heads] = case.plan(&platform()).piece;
                assert!(b <= 999 && heads <= 999);
                if key.style == RopeStyle::Interleaved {
                    assert!(b * heads <= 999);
                }
            }
        }
    });
}

/// In CANN 9 the sequence limits the heads if they come first. One token of many sequences exceeds this limit.
#[test]
fn one_token_of_many_sequences_on_cann_9() {
    let scenario = Scenario::new().set("CANN_EMULATOR_VERSION", "9.0.0");
    on(scenario, |device, stream| {
        for dtype in FLOATS {
            let case = Case {
                dtype,
                tables: dtype,
                sizes: [6, 4, 1, 64],
                ..LLAMA
            };
            assert_eq!(case.plan(&platform()).axes, Axes::BatchHeadsSequence);
            assert_eq!(case.plan(device.platform()).axes, Axes::BatchSequenceHeads);
            case.compare(stream);
            let prefill = Case {
                sizes: [2, 4, 16, 64],
                ..case
            };
            assert_eq!(
                prefill.plan(device.platform()).axes,
                Axes::BatchHeadsSequence
            );
            prefill.compare(stream);
        }
    });
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let of = |x: &Spec, cos: &Spec, sin: &Spec, key| decide(&here, &operands(x, cos, sin, key));
    let apart = |x: &Spec, table: &Spec, key, words: &str| {
        mismatched(checked(x, table, table, key), words);
    };
    let (x, table) = (
        spec(DType::F32, &[2, 3, 5, 16]),
        spec(DType::F32, &[1, 5, 16]),
    );
    let key = RopeKey::LLAMA;
    assert!(of(&x, &table, &table, key).is_ok());
    let wide = spec(DType::F64, &[2, 3, 5, 16]);
    refused(of(&wide, &table, &table, key), Reason::Dtype, "f64");
    let half = spec(DType::F16, &[1, 5, 16]);
    refused(
        of(&x, &half, &half, key),
        Reason::MixedDtypes,
        "tables are of type f16",
    );
    refused(
        of(&x, &table, &half, key),
        Reason::MixedDtypes,
        "sin is of type f16",
    );
    let other = spec(DType::F32, &[2, 5, 16]);
    refused(
        of(&x, &table, &other, key),
        Reason::Shape,
        "sin has shape [2, 5, 16]",
    );
    let narrow = spec(DType::F32, &[1, 5, 8]);
    apart(&x, &narrow, key, "rotate 8 elements, but a head has 16");
    let partial = RopeKey {
        width: RotaryWidth::Partial,
        ..key
    };
    assert_eq!(of(&x, &narrow, &narrow, partial).unwrap().rotated, 8);
    let odd = spec(DType::F32, &[1, 5, 7]);
    apart(
        &x,
        &odd,
        partial,
        "rotate 7 elements of a head, which is odd",
    );
    let short = spec(DType::F32, &[1, 4, 16]);
    apart(&x, &short, key, "the cos table is [1, 4, 16]");
    let three = spec(DType::F32, &[3, 5, 16]);
    apart(&three, &table, key, "3 axes and not 4");
    let neighbours = RopeKey {
        table: TableLayout::Neighbours,
        ..key
    };
    apart(&x, &table, neighbours, "interleaved");
    let (large, its) = (
        spec(DType::F32, &[1, 1, 1, 896]),
        spec(DType::F32, &[1, 1, 896]),
    );
    refused(of(&large, &its, &its, key), Reason::Shape, "at most 895");
    let elsewhere = decide(&other_processor(), &operands(&x, &table, &table, key));
    refused(elsewhere, Reason::Capability, "910B or later");
    // An unknown version may have more limits.
    let unknown = Platform {
        version: Version::unknown(),
        ..platform()
    };
    let (token, its) = (
        spec(DType::F32, &[6, 4, 1, 64]),
        spec(DType::F32, &[1, 1, 64]),
    );
    let plan = decide(&unknown, &operands(&token, &its, &its, key)).unwrap();
    assert_eq!(plan.axes, Axes::BatchSequenceHeads);
}

/// Checks by hand which halves belong together, and the sign of the rotation.
#[test]
fn a_quarter_turn() {
    on_the_emulator(|_, stream| {
        let put = |values: &[f64], shape: &[usize]| {
            put_values(stream, DType::F32, values, shape, Lie::Contiguous).0
        };
        let x = put(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 1, 4]);
        let (cos, sin) = (put(&[0.0; 2], &[1, 1, 2]), put(&[1.0; 2], &[1, 1, 2]));
        let turned = |style| -> Vec<f64> {
            let key = RopeKey {
                style,
                table: TableLayout::Pairs,
                ..RopeKey::LLAMA
            };
            let y: Tensor = forward(stream, &operands(&x, &cos, &sin, key)).unwrap();
            read(stream, &y)
        };
        assert_eq!(turned(RopeStyle::Half), [-3.0, -4.0, 1.0, 2.0]);
        assert_eq!(turned(RopeStyle::Interleaved), [-2.0, 1.0, -4.0, 3.0]);
        assert_eq!(turned(RopeStyle::InterleavedToHalf), [-2.0, -4.0, 1.0, 3.0]);
    });
}
