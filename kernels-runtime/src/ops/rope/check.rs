use crate::semantics::{HeadLayout, RopeKey, RopeStyle, RotaryWidth, TableLayout};
use burn::tensor::Tensor;

/// Refuses shapes that have no rotary embedding, and keys whose table has no place in their style.
#[track_caller]
pub(crate) fn check(q: &Tensor<4>, k: &Tensor<4>, cos: &Tensor<3>, sin: &Tensor<3>, key: RopeKey) {
    heads(q.dims(), k.dims(), key.layout);
    let [b, s, d] = tokens(q.dims(), key.layout);
    assert!(
        key.table != TableLayout::Neighbours || key.style == RopeStyle::Interleaved,
        "RoPE: a table of neighbours is for style=interleaved, but the semantics are {key}"
    );
    let [_, _, width] = cos.dims();
    for (name, table) in [("cos", cos.dims()), ("sin", sin.dims())] {
        assert!(
            table == [b, s, width] || table == [1, s, width],
            "RoPE: the {name} table is {table:?}, but q, {:?}, needs [1, {s}, {width}] or \
             [{b}, {s}, {width}]",
            q.dims()
        );
    }
    rotated(width, d, key);
}

/// Queries and keys differ in their numbers of heads alone.
#[track_caller]
fn heads(q: [usize; 4], k: [usize; 4], layout: HeadLayout) {
    let axis = match layout {
        HeadLayout::Bnsd => 1,
        HeadLayout::Bsnd => 2,
    };
    assert!(
        tokens(q, layout) == tokens(k, layout),
        "RoPE: q is {q:?} and k is {k:?}; only their numbers of heads (axis {axis}) may differ"
    );
}

/// Batch, sequence and head width.
pub(super) fn tokens(shape: [usize; 4], layout: HeadLayout) -> [usize; 3] {
    match (shape, layout) {
        ([b, _, s, d], HeadLayout::Bnsd) | ([b, s, _, d], HeadLayout::Bsnd) => [b, s, d],
    }
}

/// How much of a head a table of `width` rotates.
pub(super) fn rotary_width(width: usize, table: TableLayout) -> usize {
    match table {
        TableLayout::Halves | TableLayout::Neighbours => width,
        TableLayout::Pairs => 2 * width,
    }
}

#[track_caller]
fn rotated(width: usize, d: usize, key: RopeKey) {
    let rotated = rotary_width(width, key.table);
    assert!(
        rotated > 0,
        "RoPE: the tables have no elements; they rotate nothing"
    );
    assert!(
        rotated.is_multiple_of(2),
        "RoPE: the tables rotate {rotated} elements of a head, which is odd; elements rotate in \
         pairs"
    );
    match key.width {
        RotaryWidth::Full => assert!(
            rotated == d,
            "RoPE: the tables, {width} wide, rotate {rotated} elements, but a head has {d}; \
             `width = partial` rotates a part"
        ),
        RotaryWidth::Partial => assert!(
            rotated <= d,
            "RoPE: the tables, {width} wide, rotate {rotated} elements, but a head has only {d}"
        ),
    }
}
