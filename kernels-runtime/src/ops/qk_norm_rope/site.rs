use super::live::Prepared;
use crate::__private::{RopeTable, SectionTable};
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::qk_norm_rope::{self, Inputs, Pair, Projected, Settings};
use crate::ops::rope::{check_sections, merge};
use crate::semantics::QkNormRopeKey;
use burn::tensor::Tensor;

/// Queries and keys, before or after.
type Both = (Tensor<4>, Tensor<4>);

/// A function that reads the weight of a norm.
type Weight<'a> = &'a dyn Fn() -> Option<Tensor<1>>;

/// The weights of both norms, in the order in which the body reads them: parameters are initialised at their first use.
#[derive(Clone, Copy)]
pub struct QkWeights<'a> {
    q: Weight<'a>,
    k: Weight<'a>,
    keys_first: bool,
}

impl<'a> QkWeights<'a> {
    /// Returns weights of which the body reads the queries' first.
    pub fn queries_first(q: Weight<'a>, k: Weight<'a>) -> Self {
        let keys_first = false;
        Self { q, k, keys_first }
    }

    /// Returns weights of which the body reads the keys' first. A call evaluates its arguments in the same order.
    pub fn keys_first(k: Weight<'a>, q: Weight<'a>) -> Self {
        let keys_first = true;
        Self { q, k, keys_first }
    }

    fn read(self) -> [Option<Tensor<1>>; 2] {
        if self.keys_first {
            let k = (self.k)();
            return [(self.q)(), k];
        }
        [(self.q)(), (self.k)()]
    }
}

/// Runs the norm and rotation of a site.
///
/// The weights are called at most once, and only if the kernel may run: reading a parameter costs as much as a small
/// operation.
#[track_caller]
pub fn qk_norm_rope(
    at: At,
    (q, k): Both,
    weights: QkWeights<'_>,
    (cos, sin): (impl RopeTable, impl RopeTable),
    eps: Option<f64>,
    reference: &mut dyn FnMut(Both) -> Both,
) -> Both {
    let _span = at.enter();
    let tables = [cos.rows(), sin.rows()];
    either(&at, [q, k], weights, tables, eps, reference)
}

/// Works like [`qk_norm_rope`], with the tables of three positions, which are merged only if a kernel runs.
#[track_caller]
pub fn qk_norm_rope_sections(
    at: At,
    (q, k): Both,
    weights: QkWeights<'_>,
    (cos, sin): (impl SectionTable, impl SectionTable),
    sections: [usize; 3],
    eps: Option<f64>,
    reference: &mut dyn FnMut(Both) -> Both,
) -> Both {
    let _span = at.enter();
    let (tables, key) = ([cos.table(), sin.table()], at.key::<QkNormRopeKey>());
    check_sections(&tables[0], &tables[1], sections, key.rope());
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = tables.map(Tensor::into_dispatch);
    let flowing = [&q, &k, &cos, &sin];
    let is_fused = at.peek(flowing).is_fused();
    if !is_fused {
        at.decide(flowing);
    }
    let [q, k] = [q, k].map(Tensor::from_dispatch);
    if !is_fused {
        return reference((q, k));
    }
    let tables = [cos, sin].map(|table| merge(Tensor::from_dispatch(table), sections, key.rope()));
    either(&at, [q, k], weights, tables, eps, reference)
}

#[track_caller]
fn either(
    at: &At,
    [q, k]: [Tensor<4>; 2],
    weights: QkWeights<'_>,
    [cos, sin]: [Tensor<3>; 2],
    eps: Option<f64>,
    reference: &mut dyn FnMut(Both) -> Both,
) -> Both {
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
    let flowing = [&q, &k, &cos, &sin];
    if !at.peek(flowing).is_fused() {
        at.decide(flowing);
        return reference((Tensor::from_dispatch(q), Tensor::from_dispatch(k)));
    }
    let [q_weight, k_weight] = weights.read();
    let inputs = Inputs {
        q: Tensor::from_dispatch(q),
        k: Tensor::from_dispatch(k),
        q_weight,
        k_weight,
        cos: Tensor::from_dispatch(cos),
        sin: Tensor::from_dispatch(sin),
    };
    let pair = Pair::of(inputs, Settings { eps }, at.key());
    let route = at.decide(pair.all());
    let captured = Captured::These(&["q_weight", "k_weight", "cos", "sin"]);
    live::decided(at, route, Prepared::from(pair), captured, |prepared| {
        reference((prepared.inputs.q, prepared.inputs.k))
    })
}

/// Runs [`qk_norm_rope::reference`].
#[track_caller]
pub fn qk_norm_rope_reference(
    (q, k): Both,
    [q_weight, k_weight]: [Option<Tensor<1>>; 2],
    (cos, sin): (impl RopeTable, impl RopeTable),
    eps: Option<f64>,
    key: QkNormRopeKey,
) -> Both {
    let inputs = Inputs {
        q,
        k,
        q_weight,
        k_weight,
        cos: cos.rows(),
        sin: sin.rows(),
    };
    qk_norm_rope::reference(inputs, Settings { eps }, key)
}

/// Runs [`qk_norm_rope::reference_sections`].
#[track_caller]
pub fn qk_norm_rope_sections_reference(
    (q, k): Both,
    [q_weight, k_weight]: [Option<Tensor<1>>; 2],
    (cos, sin): (impl SectionTable, impl SectionTable),
    sections: [usize; 3],
    eps: Option<f64>,
    key: QkNormRopeKey,
) -> Both {
    let projected = Projected {
        q,
        k,
        q_weight,
        k_weight,
    };
    let tables = [cos.table(), sin.table()];
    qk_norm_rope::reference_sections(projected, tables, sections, Settings { eps }, key)
}
