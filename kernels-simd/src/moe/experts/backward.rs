use super::rows::{combine, gather};
use super::sums::{Sums, gradients};
use super::unit::{Backward, Unit};
use super::{Gradients, View, Wanted, chunks, spread};
use crate::activation::Gate;
use crate::lanes::{dispatch, vectorize};
use crate::moe::{in_place, numbers};
use crate::product::{Gemm, Rows, product};
use crate::share::each;
use crate::{DType, Element, Output, Unwritten, View as Strided, sum_of};
use std::any::TypeId;
use std::fmt;
use std::ops::Range;

/// The number of rows of an expert whose gradients are computed together. The gradients of its weights are written
/// once for these rows.
const CHUNK: usize = 384;

/// The number of rows for which it is worth reading an expert's weights again.
const FEW: usize = 64;

/// Returns the number of rows of an expert that are computed together. Half types are summed in f32 in separate
/// memory. For these, the intermediate tensors should not take more memory than the sums.
fn most<T: Element>(view: &View<'_, T>) -> usize {
    if TypeId::of::<T>() == TypeId::of::<T::Acc>() {
        return CHUNK;
    }
    let sums = 3 * view.hidden * view.width;
    let row = 2 * view.hidden + 3 * view.width;
    sums.checked_div(row).unwrap_or(0).clamp(FEW, CHUNK)
}

/// The gradients by row, which do without what the forward pass kept.
pub struct RowGradients<'a>(Box<dyn FnOnce() -> Gradients + 'a>);

impl fmt::Debug for RowGradients<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowGradients")
    }
}

impl RowGradients<'_> {
    /// Adds the gradients of rows up by token, and returns the wanted gradients.
    pub fn by_token(self) -> Gradients {
        (self.0)()
    }
}

/// Returns the wanted gradients by row.
pub(super) fn backward<'a, T: Element>(
    view: View<'a, T>,
    routing: DType,
    [dy, kept]: [&Strided<'_>; 2],
    wanted: &Wanted,
) -> RowGradients<'a>
where
    T::Acc: Gemm,
{
    let rows = view.groups.slots().len();
    assert!(
        dy.sizes() == [view.tokens, view.hidden],
        "experts: a gradient of sizes {:?} is not that of {} tokens of {} elements",
        dy.sizes(),
        view.tokens,
        view.hidden
    );
    assert!(
        kept.sizes().first() == Some(&rows),
        "experts: forward kept {} rows, but {rows} tokens are routed",
        kept.sizes().first().unwrap_or(&0)
    );
    assert!(
        kept.sizes() == [rows, 2 * view.width],
        "experts: forward kept {:?}, not gate and up of {} elements",
        kept.sizes(),
        view.width
    );
    let mut dx = wanted.x.then(|| Output::<T::Acc>::new([rows, view.hidden]));
    let mut d_routing = vec![<T::Acc as Gemm>::ZERO; rows];
    let mut gradients = gradients(&view, wanted);
    {
        let mut left = dx.as_mut().map(Output::rest);
        let mut left_routing = &mut d_routing[..];
        let mut tasks = Vec::new();
        for (expert, sums) in Sums::of(&view, &mut gradients).into_iter().enumerate() {
            let rows = view.groups.of(expert).len();
            let left = left.as_mut();
            let dx = left.map(|left| left.part(rows * view.hidden));
            let (d_routing, rest) = left_routing.split_at_mut(rows);
            left_routing = rest;
            tasks.push(Task {
                expert,
                dx,
                d_routing,
                sums,
            });
        }
        let (dy, kept) = (dy.contiguous::<T>(), kept.contiguous::<T>());
        each(tasks, |task| task.run(&view, dy, kept));
    }
    let wants_routing = wanted.routing;
    RowGradients(Box::new(move || Gradients {
        x: dx.map(|dx| combine(&view, &dx.into_values(), None)),
        routing: wants_routing.then(|| {
            // Slots without an expert have no gradient.
            let rows = view.groups.rows().iter();
            let slots = rows.map(|row| d_routing.get(*row as usize).copied());
            let slots = slots.map(|value| value.unwrap_or(Gemm::ZERO));
            numbers::store::<T>(slots, routing)
        }),
        weights: gradients
            .into_iter()
            .map(in_place::Gradients::finish)
            .collect(),
    }))
}

/// The task of one expert.
struct Task<'a, T: Element> {
    expert: usize,
    /// The gradient of the expert's rows, if it is wanted.
    dx: Option<Unwritten<'a, T::Acc>>,
    d_routing: &'a mut [T::Acc],
    sums: Sums<'a, T>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(mut self, view: &View<'_, T>, dy: &[T], kept: &[T]) {
        let all = view.groups.of(self.expert);
        let spread = spread(all.len(), view.groups.slots().len());
        let first = all.start;
        let settings = view.settings;
        for rows in chunks(all, most(view)) {
            let here = rows.start - first..rows.end - first;
            let dx = self.dx.as_mut();
            let dx = dx.map(|dx| dx.part(here.len() * view.hidden));
            let d_routing = &mut self.d_routing[here];
            // Everything is freed as soon as it is no longer needed, and tokens are gathered only when needed.
            let chunk = Chunk::new(view, self.expert, rows.clone(), dy, kept, d_routing, spread);
            self.sums.add_down(settings, &chunk);
            let chunk = chunk.without_down();
            if let Some(dx) = dx {
                chunk.dx(view, self.expert, dx);
            }
            if self.sums.want_tokens() {
                let slots = &view.groups.slots()[rows];
                let x = gather(view.x, view.hidden, slots, view.choices);
                self.sums.add_gate_up(settings, &chunk, &x);
            }
        }
        self.sums.finish();
    }
}

/// The intermediate results of the backward pass for some rows of one expert.
pub(super) struct Chunk<A> {
    /// The gradient of the result, multiplied by the routing weights.
    pub(super) dy: Vec<A>,
    /// The result of the gated unit.
    pub(super) result: Vec<A>,
    pub(super) d_gate: Vec<A>,
    pub(super) d_up: Vec<A>,
    pub(super) rows: usize,
    pub(super) hidden: usize,
    pub(super) width: usize,
    pub(super) spread: bool,
    /// True if the expert has no other rows.
    pub(super) only: bool,
}

impl<A: Gemm> Chunk<A> {
    fn new<T: Element<Acc = A>>(
        view: &View<'_, T>,
        expert: usize,
        rows: Range<usize>,
        dy: &[T],
        kept: &[T],
        d_routing: &mut [A],
        spread: bool,
    ) -> Self {
        let (hidden, width) = (view.hidden, view.width);
        let only = rows == view.groups.of(expert);
        let slots = &view.groups.slots()[rows.clone()];
        let mut dy = gather(dy, hidden, slots, view.choices);
        let routing: Vec<A> = slots
            .iter()
            .map(|slot| view.routing[*slot as usize])
            .collect();
        let mut d_gate = vec![<A as Gemm>::ZERO; rows.len() * width];
        product(
            &Rows::new(&dy, rows.len(), hidden),
            view.down[expert].transposed(),
            &mut d_gate,
            false,
            spread,
        );
        let mut d_up = vec![<A as Gemm>::ZERO; rows.len() * width];
        let mut result = vec![<A as Gemm>::ZERO; rows.len() * width];
        dispatch(Backward {
            activation: Gate::of(view.settings.activation),
            unit: Unit::new(view.settings),
            width,
            kept: &kept[rows.start * 2 * width..rows.end * 2 * width],
            routing: &routing,
            gate: &mut d_gate,
            up: &mut d_up,
            result: &mut result,
            d_routing,
        });
        vectorize(Weigh {
            rows: &mut dy,
            hidden,
            routing: &routing,
            bias: view.biases.as_ref().map(|biases| &biases.down[expert][..]),
            d_routing,
        });
        Self {
            dy,
            result,
            d_gate,
            d_up,
            rows: rows.len(),
            hidden,
            width,
            spread,
            only,
        }
    }

    /// Frees the tensors that only the gradient of down's weights needs.
    fn without_down(self) -> Self {
        Self {
            dy: Vec::new(),
            result: Vec::new(),
            ..self
        }
    }

    /// Computes the gradient of the rows. Writes all of `dx`.
    fn dx<T: Element<Acc = A>>(&self, view: &View<'_, T>, expert: usize, dx: Unwritten<'_, A>) {
        let dx = dx.filled(Gemm::ZERO);
        let (gate, up) = (view.gate[expert].transposed(), view.up[expert].transposed());
        let d_gate = Rows::new(&self.d_gate, self.rows, self.width);
        let d_up = Rows::new(&self.d_up, self.rows, self.width);
        product(&d_gate, gate, dx, false, self.spread);
        product(&d_up, up, dx, true, self.spread);
    }
}

/// The multiplication of rows of `dy` by their routing weights. Also adds the bias's contribution to the gradient of
/// each routing weight.
struct Weigh<'a, A> {
    rows: &'a mut [A],
    hidden: usize,
    routing: &'a [A],
    bias: Option<&'a [A]>,
    d_routing: &'a mut [A],
}

impl<A: Gemm> pulp::WithSimd for Weigh<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (row, weight) in self.routing.iter().enumerate() {
            let values = &mut self.rows[row * self.hidden..(row + 1) * self.hidden];
            if let Some(bias) = self.bias {
                self.d_routing[row] += sum_of(values, bias, bias, |dy, bias, _| dy * bias);
            }
            for value in values {
                *value = *value * *weight;
            }
        }
    }
}
