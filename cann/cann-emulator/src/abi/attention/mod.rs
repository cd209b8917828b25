//! Flash attention and its gradient, with the layouts BSH, SBH, BSND and BNSD (`dense`), and TND (`varlen`). The
//! sparse modes are 0 (a mask or none), 1 (a full mask), 2, 3 and 4 (causal and band, with a mask of 2048 × 2048), and
//! 5 and 6 (causal behind a prefix that all queries see); with TND, 2, 3, 4 and 6. Values may be narrower than keys.
//! Version 3 has sinks. Dropout and shifts are not emulated; a call with one is refused. Attention of an inference call
//! is in `infer`.

mod call;
mod dense;
mod infer;
mod layout;
mod mask;
mod prefix;
mod second;
mod sequences;
mod varlen;

pub use self::dense::*;
pub use self::infer::*;
pub use self::second::*;
pub use self::varlen::*;

use self::call::{Call, Plan, Taken};
use self::sequences::Part;
use crate::abi::prelude::*;
use crate::ops::attention::{attention, attention_grad};

/// Repeats each row's statistic eight times.
fn eightfold(values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| [*value; 8]).collect()
}

/// Returns every eighth value, which undoes [`eightfold`].
fn once(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().step_by(8).collect()
}

/// The tensors of both directions.
struct Read<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
    mask: Option<&'a Tensor>,
    sinks: Option<&'a Tensor>,
    most: &'a Tensor,
    total: &'a Tensor,
    output: &'a Tensor,
}

/// The gradients.
struct Written<'a> {
    dq: &'a Tensor,
    dk: &'a Tensor,
    dv: &'a Tensor,
    dsinks: Option<&'a Tensor>,
}

impl Plan {
    fn forward(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [query, key, value, rest @ ..] = operands else {
            unreachable!("taken in phase one")
        };
        let (mask, rest) = rest.split_at(usize::from(self.with_mask));
        let (sinks, rest) = rest.split_at(usize::from(self.with_sinks));
        let [most, total, output] = taken(rest);
        let tensors = Read {
            query,
            key,
            value,
            mask: mask.first(),
            sinks: sinks.first(),
            most,
            total,
            output,
        };
        self.parts()
            .iter()
            .try_for_each(|part| self.forward_of(memory, &tensors, part))
    }

    fn forward_of(&self, memory: &mut Memory, tensors: &Read<'_>, part: &Part) -> Outcome<()> {
        let q = self.of_queries(tensors.query, part)?.floats(memory)?;
        let k = self.of_keys(tensors.key, part)?.floats(memory)?;
        let v = self.of_keys(tensors.value, part)?.floats(memory)?;
        let sinks = tensors
            .sinks
            .map(|sinks| sinks.floats(memory))
            .transpose()?;
        let masked = self.masked(memory, tensors.mask, part)?;
        let made = attention(
            (&q, &k, &v),
            sinks.as_deref(),
            part.sizes,
            self.scale,
            masked,
        );
        let statistics = [(tensors.most, &made.most), (tensors.total, &made.total)];
        for (tensor, values) in statistics {
            let rows = self.statistics(tensor, part);
            rows.store(memory, &eightfold(values))?;
        }
        self.of_queries(tensors.output, part)?
            .store(memory, &made.output)
    }

    fn backward(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [query, key, value, dy, rest @ ..] = operands else {
            unreachable!("taken in phase one")
        };
        let (mask, rest) = rest.split_at(usize::from(self.with_mask));
        let [most, total, output, rest @ ..] = rest else {
            unreachable!("taken in phase one")
        };
        let (sinks, rest) = rest.split_at(usize::from(self.with_sinks));
        let [dq, dk, dv, dsinks @ ..] = rest else {
            unreachable!("taken in phase one")
        };
        let tensors = Read {
            query,
            key,
            value,
            mask: mask.first(),
            sinks: sinks.first(),
            most,
            total,
            output,
        };
        let gradients = Written {
            dq,
            dk,
            dv,
            dsinks: dsinks.first(),
        };
        self.parts()
            .iter()
            .try_for_each(|part| self.backward_of(memory, &tensors, dy, &gradients, part))
    }

    fn backward_of(
        &self,
        memory: &mut Memory,
        tensors: &Read<'_>,
        dy: &Tensor,
        to: &Written<'_>,
        part: &Part,
    ) -> Outcome<()> {
        let q = self.of_queries(tensors.query, part)?.floats(memory)?;
        let k = self.of_keys(tensors.key, part)?.floats(memory)?;
        let v = self.of_keys(tensors.value, part)?.floats(memory)?;
        let dy = self.of_queries(dy, part)?.floats(memory)?;
        let y = self.of_queries(tensors.output, part)?.floats(memory)?;
        let most = once(self.statistics(tensors.most, part).floats(memory)?);
        let total = once(self.statistics(tensors.total, part).floats(memory)?);
        let sinks = tensors
            .sinks
            .map(|sinks| sinks.floats(memory))
            .transpose()?;
        let masked = self.masked(memory, tensors.mask, part)?;
        let made = attention_grad(
            (&q, &k, &v),
            sinks.as_deref(),
            (&dy, &y),
            (&most, &total),
            part.sizes,
            self.scale,
            masked,
        );
        self.of_queries(to.dq, part)?.store(memory, &made.q)?;
        self.of_keys(to.dk, part)?.store(memory, &made.k)?;
        self.of_keys(to.dv, part)?.store(memory, &made.v)?;
        match to.dsinks {
            Some(dsinks) => dsinks.store(memory, &made.sinks),
            None => Ok(()),
        }
    }
}

/// Takes the operands of the forward direction.
///
/// # Safety
///
/// The layout's text must end with a zero byte.
unsafe fn forward(operands: &mut Operands, call: &Call) -> Outcome<Work> {
    // SAFETY: the caller guarantees the text.
    let Taken { plan, .. } = unsafe { call.take(operands) }?;
    Ok(Arc::new(move |memory, operands| {
        plan.forward(memory, operands)
    }))
}

/// Takes the operands of the backward direction, which writes the gradients of query, key, value and sinks.
///
/// # Safety
///
/// The layout's text must end with a zero byte.
unsafe fn backward(
    operands: &mut Operands,
    call: &Call,
    [dq, dk, dv, dsinks]: [*const aclTensor; 4],
) -> Outcome<Work> {
    // SAFETY: the caller guarantees the text.
    let Taken {
        query,
        key,
        value,
        plan,
    } = unsafe { call.take(operands) }?;
    operands.result("dq", dq, query.dtype, &query.shape)?;
    operands.result("dk", dk, query.dtype, &key.shape)?;
    operands.result("dv", dv, query.dtype, &value.shape)?;
    if plan.with_sinks {
        operands.result("dsink", dsinks, ACL_FLOAT, &[plan.sizes.heads])?;
    }
    Ok(Arc::new(move |memory, operands| {
        plan.backward(memory, operands)
    }))
}
