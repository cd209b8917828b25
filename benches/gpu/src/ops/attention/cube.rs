//! Attention: blocks of a head of 128 elements that four heads of queries share, and the widest heads.

#[path = "../../../../../kernels-runtime/src/ops/attention/cube/kernels/mod.rs"]
mod kernels;

use crate::passes::{Buffer, Pass, Passes, Role};
use cubecl::prelude::TensorArg;
use kernels::{Heads, NumbersLaunch, StridesLaunch};

const TOKENS: usize = 4096;
const KV_HEADS: usize = 8;
const GROUP: usize = 4;
const HEADS: usize = KV_HEADS * GROUP;
const ROWS: usize = TOKENS * HEADS;

/// Launches both passes, plain, with a cap and a bias, and with the widest heads.
pub fn all(passes: &mut Passes) {
    for (name, width, has_all) in [
        ("", 128, false),
        (" with cap and bias", 128, true),
        (" of 256", 256, false),
    ] {
        let shape = Shape { width, has_all };
        shape.forward(passes.pass(&format!("attention forward{name}")));
        shape.queries(passes.pass(&format!("attention backward queries{name}")));
        shape.keys(passes.pass(&format!("attention backward keys{name}")));
        let sums = passes.pass(&format!("attention backward sums{name}"));
        if sums.is_half() {
            shape.sums(sums);
        }
    }
    let shape = Shape {
        width: 128,
        has_all: false,
    };
    shape.sinks(passes.pass("attention sinks"));
    let statistics = passes.pass("attention backward statistics");
    match statistics.is_half() {
        false => shape.statistics(statistics),
        true => shape.statistics_without_sums(statistics),
    }
    shape.sink_gradients(passes.pass("attention backward sinks"));
}

#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    has_all: bool,
}

/// The operands of blocks.
struct Operands {
    q: Buffer,
    k: Buffer,
    v: Buffer,
    bias: Option<Buffer>,
}

impl Shape {
    fn operands(self, pass: &mut Pass<'_>) -> Operands {
        let mut of = |heads| pass.buffer(heads * TOKENS * self.width, Role::Operand);
        let [q, k, v] = [of(HEADS), of(KV_HEADS), of(KV_HEADS)];
        Operands {
            q,
            k,
            v,
            bias: self
                .has_all
                .then(|| pass.buffer(HEADS * TOKENS, Role::Operand)),
        }
    }

    /// Returns what the variants of the kernels depend on.
    fn variants(self, size: usize) -> Heads {
        Heads {
            size,
            width: self.width,
            value_width: self.width,
            group: GROUP,
            is_capped: self.has_all,
        }
    }

    /// Returns an argument of rows of heads.
    fn heads(self, buffer: &Buffer, heads: usize) -> TensorArg {
        let strides = [
            TOKENS * heads * self.width,
            TOKENS * self.width,
            self.width,
            1,
        ];
        let shape = [1, heads, TOKENS, self.width];
        // SAFETY: nothing runs.
        unsafe { TensorArg::from_raw_parts(buffer.handle(), strides.into(), shape.into()) }
    }

    fn numbers(self, size: usize) -> NumbersLaunch {
        let vectors = self.width / size;
        let strides =
            |heads: usize| StridesLaunch::new(TOKENS * heads * vectors, TOKENS * vectors, vectors);
        let (queries, keys) = (|| strides(HEADS), || strides(KV_HEADS));
        NumbersLaunch::new(
            1,
            KV_HEADS,
            TOKENS,
            TOKENS,
            vectors,
            vectors,
            0.088,
            30.0,
            f32::NEG_INFINITY,
            0,
            queries(),
            keys(),
            keys(),
            StridesLaunch::new(0, TOKENS, 0),
            queries(),
            queries(),
            queries(),
            keys(),
            keys(),
        )
    }

    fn forward(self, mut pass: Pass<'_>) {
        let (size, of) = (pass.size(), self.operands(&mut pass));
        let ranges = pass.numbers(2 * TOKENS, Role::Operand);
        let y = pass.buffer(ROWS * self.width, Role::Result);
        let lse = pass.numbers(ROWS, Role::Result);
        let form = self.variants(size).results(GROUP * TOKENS);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, form.units(), |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::forward::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    self.heads(&of.q, HEADS),
                    self.heads(&of.k, KV_HEADS),
                    self.heads(&of.v, KV_HEADS),
                    of.bias.map(|bias| bias.arg()).into(),
                    ranges.arg(),
                    y.arg(),
                    lse.arg(),
                    self.numbers(size),
                    form,
                    self.has_all,
                    element,
                );
            }
        });
        pass.end();
    }

    fn queries(self, mut pass: Pass<'_>) {
        let (size, of) = (pass.size(), self.operands(&mut pass));
        let dy = pass.buffer(ROWS * self.width, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Operand);
        let dq = pass.buffer(ROWS * self.width, Role::Result);
        let form = self.variants(size).queries(GROUP * TOKENS);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, form.units(), |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::query_gradients::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    self.heads(&of.q, HEADS),
                    self.heads(&of.k, KV_HEADS),
                    self.heads(&of.v, KV_HEADS),
                    self.heads(&dy, HEADS),
                    statistics.arg(),
                    of.bias.map(|bias| bias.arg()).into(),
                    dq.arg(),
                    self.numbers(size),
                    form,
                    element,
                );
            }
        });
        pass.end();
    }

    fn keys(self, mut pass: Pass<'_>) {
        let (size, of) = (pass.size(), self.operands(&mut pass));
        let dy = pass.buffer(ROWS * self.width, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Operand);
        let of_keys = KV_HEADS * TOKENS * self.width;
        let gradients = pass.buffer(2 * of_keys, Role::Result);
        let form = self.variants(size).keys(TOKENS);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, form.units(), |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::key_gradients::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    self.heads(&of.q, HEADS),
                    self.heads(&of.k, KV_HEADS),
                    self.heads(&of.v, KV_HEADS),
                    self.heads(&dy, HEADS),
                    statistics.arg(),
                    of.bias.map(|bias| bias.arg()).into(),
                    gradients.arg(),
                    of_keys / size,
                    self.numbers(size),
                    form,
                    element,
                );
            }
        });
        pass.end();
    }

    fn sums(self, mut pass: Pass<'_>) {
        let (size, of) = (pass.size(), self.operands(&mut pass));
        let dy = pass.buffer(ROWS * self.width, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Operand);
        let with_sums = pass.numbers(4 * ROWS, Role::Result);
        let form = self.variants(size).sums(GROUP * TOKENS);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, form.units(), |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::sums_along::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    self.heads(&of.q, HEADS),
                    self.heads(&of.k, KV_HEADS),
                    self.heads(&of.v, KV_HEADS),
                    self.heads(&dy, HEADS),
                    statistics.arg(),
                    of.bias.map(|bias| bias.arg()).into(),
                    with_sums.arg(),
                    self.numbers(size),
                    form,
                    element,
                );
            }
        });
        pass.end();
    }

    fn sinks(self, mut pass: Pass<'_>) {
        let sinks = pass.buffer(HEADS, Role::Operand);
        let lse = pass.numbers(ROWS, Role::Result);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, 256, |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::sinks_first::launch_unchecked(
                    client,
                    count,
                    dim,
                    sinks.arg(),
                    lse.arg(),
                    HEADS,
                    TOKENS,
                    ROWS,
                    element,
                );
            }
        });
        pass.end();
    }

    fn statistics(self, mut pass: Pass<'_>) {
        let size = pass.size();
        let [y, dy] = [(); 2].map(|()| pass.buffer(ROWS * self.width, Role::Operand));
        let lse = pass.numbers(ROWS, Role::Operand);
        let ranges = pass.numbers(2 * TOKENS, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Result);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, 32, |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::row_statistics::launch_unchecked(
                    client,
                    count,
                    dim,
                    size,
                    self.heads(&y, HEADS),
                    self.heads(&dy, HEADS),
                    lse.arg(),
                    ranges.arg(),
                    statistics.arg(),
                    self.numbers(size),
                    GROUP,
                    32,
                    element,
                );
            }
        });
        pass.end();
    }

    fn statistics_without_sums(self, mut pass: Pass<'_>) {
        let size = pass.size();
        let lse = pass.numbers(ROWS, Role::Operand);
        let ranges = pass.numbers(2 * TOKENS, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Result);
        let name = pass.name();
        pass.launch(&name, 256, |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::statistics_without_sums::launch_unchecked(
                    client,
                    count,
                    dim,
                    lse.arg(),
                    ranges.arg(),
                    statistics.arg(),
                    self.numbers(size),
                    GROUP,
                );
            }
        });
        pass.end();
    }

    fn sink_gradients(self, mut pass: Pass<'_>) {
        let size = pass.size();
        let sinks = pass.buffer(HEADS, Role::Operand);
        let statistics = pass.numbers(4 * ROWS, Role::Operand);
        let gradients = pass.buffer(HEADS, Role::Result);
        let (name, element) = (pass.name(), pass.element());
        pass.launch(&name, 256, |client, count, dim| {
            // SAFETY: nothing runs.
            unsafe {
                kernels::sink_gradients::launch_unchecked(
                    client,
                    count,
                    dim,
                    sinks.arg(),
                    statistics.arg(),
                    gradients.arg(),
                    self.numbers(size),
                    GROUP,
                    256,
                    element,
                );
            }
        });
        pass.end();
    }
}
