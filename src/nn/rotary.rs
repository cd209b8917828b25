use burn::module::Module;
use burn::tensor::{Tensor, assert_shape};

/// [`burn::nn::RotaryEncoding`] with a fused kernel.
///
/// Burn rotates neighbouring elements (*interleaved*). Most models in Hugging Face layout rotate halves, which is a
/// different function.
///
/// ```
/// use burn::nn::RotaryEncodingConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::RotaryEncoding;
///
/// let device = Device::flex();
/// let rope: RotaryEncoding = RotaryEncodingConfig::new(64, 8).init(&device).into();
/// let (q, k) = (Tensor::<4>::ones([1, 4, 16, 8], &device), Tensor::ones([1, 2, 16, 8], &device));
/// let (q, k) = rope.forward(q, k);
/// assert_eq!((q.dims(), k.dims()), ([1, 4, 16, 8], [1, 2, 16, 8]));
/// ```
#[derive(Module, Debug)]
pub struct RotaryEncoding {
    inner: burn::nn::RotaryEncoding,
}

impl RotaryEncoding {
    /// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` at the positions `0..s`.
    pub fn forward(&self, q: Tensor<4>, k: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        self.apply(q, k, 0)
    }

    /// Rotates queries and keys at the positions `start..start + s`.
    ///
    /// # Panics
    /// Panics if the head width is not the encoding's, or if the positions go beyond its table.
    pub fn apply(&self, q: Tensor<4>, k: Tensor<4>, start: usize) -> (Tensor<4>, Tensor<4>) {
        let [positions, width, _] = self.inner.freq_complex.dims();
        assert_shape!(q, [_, _, _, width]);
        let end = start + q.dims()[2];
        assert!(
            end <= positions,
            "RoPE: the table has {positions} positions, the call needs {start}..{end}"
        );
        let table = self
            .inner
            .freq_complex
            .clone()
            .narrow(0, start, end - start);
        let [cos, sin] = [0, 1].map(|part| table.clone().narrow(2, part, 1).squeeze_dim::<2>(2));
        rotate(q, k, cos, sin)
    }

    /// Returns the wrapped layer, for example to shift its window of positions.
    pub fn inner_mut(&mut self) -> &mut burn::nn::RotaryEncoding {
        &mut self.inner
    }
}

#[kernels_macros::fused_kernel(
    "npu_fused_rope",
    crate = crate,
    style = interleaved,
    table = neighbours,
    layer = "rotary_pos_emb"
)]
fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> (Tensor<4>, Tensor<4>) {
    let rotate = |x: Tensor<4>| {
        let [b, h, s, d] = x.dims();
        let pairs = x.clone().reshape([b, h, s, d / 2, 2]);
        let [even, odd] = [0, 1].map(|part| pairs.clone().narrow(4, part, 1));
        let turned = Tensor::cat(vec![-odd, even], 4).reshape([b, h, s, d]);
        x * cos.clone().unsqueeze() + turned * sin.clone().unsqueeze()
    };
    (rotate(q), rotate(k))
}

impl From<burn::nn::RotaryEncoding> for RotaryEncoding {
    fn from(inner: burn::nn::RotaryEncoding) -> Self {
        Self { inner }
    }
}
