//! The gradients of a composed call.

use super::super::super::{Attention, Each};
use super::super::tensors;
use super::{Block, Composed, Scored, by_head, is_minus_infinity, of_block};
use crate::npu::views::reshaped;
use crate::npu::{Result, Seen, base};
use crate::ops::fused::Backward;
use burn_cann::{DType, Stream, Tensor};

impl Composed<'_> {
    /// Returns the gradients that are wanted.
    pub(in super::super) fn backward(
        &self,
        stream: &Stream,
        backward: &Backward<Attention, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let mut pass = Pass::new(self, stream, backward)?;
        for block in self.blocks() {
            pass.add(&block)?;
        }
        pass.finish()
    }
}

/// A backward pass, with the gradients that are wanted. All but that of the queries are sums over blocks, in f32.
struct Pass<'a> {
    call: &'a Composed<'a>,
    stream: &'a Stream,
    /// The gradient of the result, `[batch, heads, queries, value_width]`. It is zero for queries that see no key.
    dy: Tensor,
    /// `[batch, heads, queries]`. The largest number of f32 for queries that see no key, so that their weights are zero.
    lse: Tensor,
    /// The queries that see no key, `[batch, heads, queries]`, if there may be any.
    sees_none: Option<Tensor>,
    /// The gradient of the queries in the layout and dtype of the call.
    dq: Option<Tensor>,
    /// The gradients of the keys and values that a query sees, `[batch, kv_heads, seen, width]`.
    dk: Option<Tensor>,
    dv: Option<Tensor>,
    d_bias: Option<Tensor>,
    /// `[heads]`.
    d_sinks: Option<Tensor>,
}

impl<'a> Pass<'a> {
    fn new(
        call: &'a Composed<'a>,
        stream: &'a Stream,
        backward: &Backward<Attention, Seen<Tensor>>,
    ) -> Result<Self> {
        let (operands, wanted) = (call.operands, backward.wanted());
        let [_, lse] = backward.saved();
        let mut lse = Tensor::clone(lse);
        let mut dy = by_head(backward.dy(), operands.key().layout)?;
        let may_see_nothing = call.blind().is_some() || operands.bias().is_some();
        let sees_none = may_see_nothing
            .then(|| is_minus_infinity(stream, &lse))
            .transpose()?;
        if let Some(sees_none) = &sees_none {
            lse = base::copy(stream, &lse)?;
            base::masked_fill(stream, &lse, sees_none, f32::MAX.into())?;
            dy = base::copy(stream, &dy)?;
            base::masked_fill(stream, &dy, &sees_none.unsqueeze(3)?, 0.0)?;
        }
        let zeros = |wanted: bool, shape: &[usize]| {
            let zeros = wanted.then(|| base::filled(stream, DType::F32, shape, 0.0));
            zeros.transpose()
        };
        let q = operands.q();
        let dq = wanted
            .q
            .then(|| Tensor::empty(stream, q.dtype(), q.shape()));
        let of_bias = operands.bias().map_or(&[][..], |bias| bias.shape());
        Ok(Self {
            call,
            stream,
            dy,
            lse,
            sees_none,
            dq: dq.transpose()?,
            dk: zeros(wanted.k, call.k.shape())?,
            dv: zeros(wanted.v, call.v.shape())?,
            d_bias: zeros(wanted.bias, of_bias)?,
            d_sinks: zeros(wanted.sinks, &[call.sizes.heads])?,
        })
    }

    /// Adds the gradients of a block.
    fn add(&mut self, block: &Block) -> Result<()> {
        let (call, stream) = (self.call, self.stream);
        let of_inputs = self.dq.is_some() || self.dk.is_some();
        let of_scores = of_inputs || self.d_bias.is_some();
        let Scored { q, z, slope } = call.scored(stream, block, of_inputs)?;
        let weights = self.weights(&z, block)?;
        drop(z);
        let dy = call.joined(stream, &self.dy, block)?;
        if let Some(dv) = &self.dv {
            let part = turned_product(stream, &weights, &dy)?;
            add_to(stream, &call.part(dv, block)?, &part)?;
        }
        if !of_scores && self.d_sinks.is_none() {
            return Ok(());
        }
        let v = call.part(&call.v, block)?.transpose(2, 3)?;
        let d_weights = base::product(stream, &dy, &v)?;
        self.add_to_sinks(block, &weights, &d_weights)?;
        if !of_scores {
            return Ok(());
        }
        let mut gradient = base::softmax_backward(stream, &d_weights, &weights, 3)?;
        drop((weights, d_weights));
        self.add_to_bias(block, &gradient)?;
        if let Some(slope) = slope {
            gradient = base::mul(stream, &gradient, &slope)?;
        }
        if let Some(dq) = &self.dq {
            let part = base::product(stream, &gradient, &call.part(&call.k, block)?)?;
            let part = base::mul_number(stream, &part, call.scale)?;
            let dq = by_head(dq, call.operands.key().layout)?;
            base::write(
                stream,
                &dq.slice(2, block.queries.clone())?,
                &call.apart(&part)?,
            )?;
        }
        if let Some(dk) = &self.dk {
            let part = turned_product(stream, &gradient, &q)?;
            add_to(stream, &call.part(dk, block)?, &part)?;
        }
        Ok(())
    }

    /// Returns the weights of a block, of its scores. Those of queries that see no key are of no use, since `dy` is zero there,
    /// but they are numbers.
    fn weights(&self, z: &Tensor, block: &Block) -> Result<Tensor> {
        let (call, stream) = (self.call, self.stream);
        let of_rows = |values: &Tensor| {
            let rows = [z.shape()[0], z.shape()[1], z.shape()[2], 1];
            reshaped(stream, &values.slice(2, block.queries.clone())?, rows)
        };
        if let Some(sees_none) = self
            .sees_none
            .as_ref()
            .filter(|_| call.operands.bias().is_some())
        {
            base::masked_fill(stream, z, &of_rows(sees_none)?, 0.0)?;
        }
        match call.sinks {
            None => base::softmax(stream, z, 3),
            Some(_) => base::exp(stream, &base::sub(stream, z, &of_rows(&self.lse)?)?),
        }
    }

    fn add_to_sinks(&mut self, block: &Block, weights: &Tensor, d_weights: &Tensor) -> Result<()> {
        let (call, stream) = (self.call, self.stream);
        let (Some(d_sinks), Some(sinks)) = (&self.d_sinks, &call.sinks) else {
            return Ok(());
        };
        let pairs = base::mul(stream, weights, d_weights)?;
        let sum = call
            .apart(&base::sum(stream, &pairs, &[3], true)?)?
            .squeeze(3)?;
        let lse = self.lse.slice(2, block.queries.clone())?;
        let of_sinks = base::exp(stream, &base::sub(stream, sinks, &lse)?)?;
        let less = base::sum(stream, &base::mul(stream, &of_sinks, &sum)?, &[0, 2], false)?;
        self.d_sinks = Some(base::sub(stream, d_sinks, &less)?);
        Ok(())
    }

    fn add_to_bias(&self, block: &Block, gradient: &Tensor) -> Result<()> {
        let Some(d_bias) = &self.d_bias else {
            return Ok(());
        };
        let mut part = self.call.apart(gradient)?;
        let repeated = |&axis: &usize| d_bias.shape()[axis] < part.shape()[axis];
        let axes: Vec<usize> = (0..3).filter(repeated).collect();
        // Of no axes, the operator would add all elements.
        if !axes.is_empty() {
            part = base::sum(self.stream, &part, &axes, true)?;
        }
        add_to(self.stream, &of_block(d_bias, block)?, &part)
    }

    fn finish(self) -> Result<Each<Option<Tensor>>> {
        let [q, k, v] = tensors(self.call.operands);
        let in_dtype = |gradient: Option<Tensor>| {
            let gradient = gradient.map(|gradient| base::cast(self.stream, &gradient, q.dtype()));
            gradient.transpose()
        };
        Ok(Each {
            k: self.of_keys(k, self.dk.as_ref())?,
            v: self.of_keys(v, self.dv.as_ref())?,
            q: self.dq,
            bias: in_dtype(self.d_bias)?,
            sinks: in_dtype(self.d_sinks)?,
        })
    }

    /// Returns the gradient of keys or values in their layout and dtype, with zeros for keys that no query sees.
    fn of_keys(&self, given: &Tensor, gradient: Option<&Tensor>) -> Result<Option<Tensor>> {
        let Some(gradient) = gradient else {
            return Ok(None);
        };
        let (call, stream) = (self.call, self.stream);
        let target = match call.seen.len() == call.sizes.keys {
            true => Tensor::empty(stream, given.dtype(), given.shape())?,
            false => base::filled(stream, given.dtype(), given.shape(), 0.0)?,
        };
        let seen = by_head(&target, call.operands.key().layout)?.slice(2, call.seen.clone())?;
        base::write(stream, &seen, gradient)?;
        Ok(Some(target))
    }
}

/// Returns `aᵀ · b` of each head.
fn turned_product(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    base::product(stream, &a.transpose(2, 3)?, b)
}

/// Adds a part to a view of a sum.
fn add_to(stream: &Stream, target: &Tensor, part: &Tensor) -> Result<()> {
    base::write(stream, target, &base::add(stream, target, part)?)
}
