use crate::ops::moe::Stack;
use crate::ops::moe::experts::{Projection, Weights, fused, reference};
use crate::reason::Reason;
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::{Clamp, ExpertBias, ExpertLayout, MoeExpertsKey, Projections, SemanticsKey};
use crate::verify::case::{Case, Computation, Computed, Layout, Variant};
use burn::tensor::{Int, Tensor, TensorData};

/// The experts of a mixture on `[tokens, hidden, width, experts]`.
#[derive(Clone, Copy)]
struct Experts {
    key: MoeExpertsKey,
    route: Route,
    stacked: bool,
}

/// The experts of the two choices of every token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    /// Different experts.
    Spread,
    /// The first expert for both choices.
    One,
    /// Different experts; every third choice is an expert on another device.
    Elsewhere,
}

const CHOICES: usize = 2;

const SMALL: [usize; 4] = [7, 20, 13, 5];

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    all().map(|(variant, shape, layout)| Case::new(variant, shape, layout))
}

/// Returns every key on a small shape. The two keys that models use most get other shapes, routes and layouts too.
fn all() -> impl Iterator<Item = (Experts, [usize; 4], Layout)> {
    let of_key = |key| (of(key, Route::Spread, true), SMALL, Layout::Contiguous);
    keys().map(of_key).chain(
        [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS]
            .into_iter()
            .flat_map(of_shapes),
    )
}

fn of_shapes(key: MoeExpertsKey) -> impl Iterator<Item = (Experts, [usize; 4], Layout)> {
    let spread = |shape| (of(key, Route::Spread, true), shape, Layout::Contiguous);
    let shapes = [[1, 1, 1, 1], [0, 8, 4, 3], [3, 33, 17, 9], [70, 40, 36, 4]].map(spread);
    let routes = [Route::One, Route::Elsewhere];
    let routes = routes.map(|route| (of(key, route, true), SMALL, Layout::Contiguous));
    let lists = [SMALL, [40, 24, 16, 3]];
    let lists = lists.map(|shape| (of(key, Route::Elsewhere, false), shape, Layout::Contiguous));
    let strided = [Layout::Transposed, Layout::Sliced];
    let strided = strided.map(|layout| (of(key, Route::Spread, true), SMALL, layout));
    shapes.into_iter().chain(routes).chain(lists).chain(strided)
}

fn of(key: MoeExpertsKey, route: Route, stacked: bool) -> Experts {
    Experts {
        key,
        route,
        stacked,
    }
}

fn keys() -> impl Iterator<Item = MoeExpertsKey> {
    let projections = [
        Projections::Chunked,
        Projections::Interleaved,
        Projections::Separate,
    ];
    [ExpertLayout::Linear, ExpertLayout::Matmul]
        .into_iter()
        .flat_map(move |layout| {
            projections.into_iter().flat_map(move |projections| {
                [ExpertBias::None, ExpertBias::All]
                    .into_iter()
                    .flat_map(move |bias| {
                        [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS].map(|key| MoeExpertsKey {
                            layout,
                            projections,
                            bias,
                            ..key
                        })
                    })
            })
        })
}

/// The names and sizes of one projection.
struct Part {
    weight: &'static str,
    bias: &'static str,
    gradients: [&'static str; 2],
    inputs: usize,
    features: usize,
}

impl Variant for Experts {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn describe(&self, [tokens, hidden, width, experts]: [usize; 4], layout: &str) -> String {
        let route = match self.route {
            Route::Spread => "",
            Route::One => ", all to one",
            Route::Elsewhere => ", some elsewhere",
        };
        let form = if self.stacked { "" } else { " in a list" };
        format!("{tokens} tokens of {hidden}, {experts} experts of {width}{form}{route}{layout}")
    }

    /// Gives the exact results the reference's own error in the dtype as tolerance: an expert rounds several times,
    /// and the effect on a result depends on the numbers.
    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let results = self.run(shape, at)?;
        if at.fused {
            return Ok(results);
        }
        let plain = self.run(
            shape,
            &Computation {
                dtype: at.exact_in,
                ..*at
            },
        )?;
        let pairs = results.into_iter().zip(&plain);
        Ok(pairs
            .map(|(exact, plain)| exact.with_noise_of(plain))
            .collect())
    }
}

impl Experts {
    fn parts(self, [_, hidden, width, _]: [usize; 4]) -> Vec<Part> {
        let part = |names: [&'static str; 4], inputs, features| Part {
            weight: names[0],
            bias: names[1],
            gradients: [names[2], names[3]],
            inputs,
            features,
        };
        let gate = ["gate", "gate_bias", "d_gate", "d_gate_bias"];
        let up = ["up", "up_bias", "d_up", "d_up_bias"];
        let both = ["gate_up", "gate_up_bias", "d_gate_up", "d_gate_up_bias"];
        let down = part(
            ["down", "down_bias", "d_down", "d_down_bias"],
            width,
            hidden,
        );
        match self.key.projections {
            Projections::Separate => vec![part(gate, hidden, width), part(up, hidden, width), down],
            Projections::Chunked | Projections::Interleaved => {
                vec![part(both, hidden, 2 * width), down]
            }
        }
    }

    /// Returns the indices. With [`Route::Elsewhere`], a third of the slots chooses an expert on another device.
    fn indices(self, [tokens, _, _, experts]: [usize; 4]) -> Vec<i64> {
        let slots = 0..tokens * CHOICES;
        let chosen = slots.map(|slot| {
            let (token, choice) = (slot / CHOICES, slot % CHOICES);
            match self.route {
                Route::One => 0,
                Route::Elsewhere if slot % 3 == 1 => experts,
                _ => (token * 7 + choice) % experts,
            }
        });
        chosen.map(|expert| expert as i64).collect()
    }

    /// Returns a limit inside the range of the gates, so that it clamps some of them. On half types it clamps none: a
    /// gate that rounding moves across the limit would gain or lose its gradient.
    fn limit(self, dtype: FloatType) -> Option<f64> {
        let limit = match dtype {
            FloatType::F64 | FloatType::F32 => 1.5,
            FloatType::F16 | FloatType::Bf16 => 60.0,
        };
        (self.key.clamp == Clamp::Limit).then_some(limit)
    }

    fn run(self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let [tokens, hidden, _, experts] = shape;
        let mut leaves = Leaves::default();
        let x = leaves.add("d_x", at.leaf("x", [tokens, hidden]));
        let (routing, seen) = at.leaf("routing", [tokens, CHOICES]);
        leaves.plain.push(("d_routing", routing));
        let mut parts = self.parts(shape).into_iter();
        let mut next = || {
            let part = parts.next().expect("a part for each projection");
            self.projection(part, experts, at, &mut leaves)
        };
        let first = next();
        let weights = match self.key.projections {
            Projections::Separate => Weights::separate(first, next(), next()),
            Projections::Chunked | Projections::Interleaved => Weights::packed(first, next()),
        };
        let indices = TensorData::new(self.indices(shape), [tokens, CHOICES]);
        let indices = Tensor::<2, Int>::from_data(indices, at.device);
        let limit = self.limit(at.exact_in);
        let y = if at.fused {
            fused(x, indices, seen, weights, limit, self.key)?
        } else {
            reference(x, indices, seen, weights, limit, self.key)
        };
        let mut loss = (y.clone() * at.plain("dy", [tokens, hidden])).sum();
        if tokens == 0 {
            // Burn does not track an empty selection.
            loss = loss + leaves.sum();
        }
        let grads = loss.backward();
        let gradients = leaves.gradients(&grads);
        Ok(std::iter::once(Computed::new("y", Some(y)))
            .chain(gradients)
            .collect())
    }

    fn projection(
        self,
        part: Part,
        experts: usize,
        at: &Computation<'_>,
        leaves: &mut Leaves,
    ) -> Projection {
        let Part {
            inputs, features, ..
        } = part;
        let sizes = match self.key.layout {
            ExpertLayout::Linear => [experts, features, inputs],
            ExpertLayout::Matmul => [experts, inputs, features],
        };
        let (leaf, weight) = at.leaf(part.weight, sizes);
        leaves.weights.push((part.gradients[0], leaf));
        // The factor is a power of two, so the product is exact. It keeps gates near one.
        let projection = Projection::new(self.stack::<3, 2>(weight * 0.25));
        if self.key.bias == ExpertBias::None {
            return projection;
        }
        let (leaf, bias) = at.leaf(part.bias, [experts, features]);
        leaves.plain.push((part.gradients[1], leaf));
        projection.with_bias(self.stack::<2, 1>(bias))
    }

    fn stack<const STACKED: usize, const SINGLE: usize>(
        self,
        all: Tensor<STACKED>,
    ) -> Stack<STACKED, SINGLE> {
        if self.stacked {
            return all.into();
        }
        let one = |expert| all.clone().narrow(0, expert, 1).squeeze_dim(0);
        let each: Vec<Tensor<SINGLE>> = (0..all.dims()[0]).map(one).collect();
        each.into()
    }
}

/// The tensors whose gradients are taken, with their names.
#[derive(Default)]
struct Leaves {
    plain: Vec<(&'static str, Tensor<2>)>,
    weights: Vec<(&'static str, Tensor<3>)>,
}

impl Leaves {
    fn add(&mut self, name: &'static str, (leaf, seen): (Tensor<2>, Tensor<2>)) -> Tensor<2> {
        self.plain.push((name, leaf));
        seen
    }

    fn sum(&self) -> Tensor<1> {
        let plain = self.plain.iter().map(|(_, leaf)| leaf.clone().sum());
        let weights = self.weights.iter().map(|(_, leaf)| leaf.clone().sum());
        let all = plain.chain(weights);
        all.reduce(|sum, part| sum + part)
            .expect("there are leaves")
    }

    /// Returns the gradients, zeros for tensors that no token reaches.
    fn gradients(self, grads: &burn::tensor::Gradients) -> Vec<Computed> {
        fn of<const D: usize>(
            (name, leaf): (&'static str, Tensor<D>),
            grads: &burn::tensor::Gradients,
        ) -> Computed {
            let gradient = leaf.grad(grads);
            Computed::new(
                name,
                Some(gradient.unwrap_or_else(|| leaf.inner().zeros_like())),
            )
        }
        let plain = self.plain.into_iter().map(|leaf| of(leaf, grads));
        let weights = self.weights.into_iter().map(|leaf| of(leaf, grads));
        plain.chain(weights).collect()
    }
}
