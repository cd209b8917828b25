//! The detection of plain layers: Burn's `Linear` with float weights and no adapter. A kernel may read the weights of
//! these only. Every other layer is called through its own `forward`.

use burn::nn::Linear;

/// A wrapper by which [`plain_linear!`](crate::__plain_linear) selects a method by the layer's type.
pub struct Layer<'a, T>(pub &'a T);

impl<'a> Layer<'a, Linear> {
    /// Returns the layer, if `forward` multiplies by its weight as it is.
    pub fn plain(&self) -> Option<&'a Linear> {
        let weight = &self.0.weight;
        // Reading the type would initialise the weight. Only an initialised weight can be quantised.
        let is_float = || !weight.is_initialized() || weight.dtype().is_float();
        let is_plain = weight.adapter().is_none() && is_float();
        is_plain.then_some(self.0)
    }
}

/// The fallback for every other type. An inherent method takes precedence over it, so this one is used for a type that
/// is not `Linear`, or that is a type parameter.
pub trait NotPlain {
    /// Returns `None`, because it is not known what the layer computes.
    fn plain(&self) -> Option<&'static Linear> {
        None
    }
}

impl<T> NotPlain for Layer<'_, T> {}

/// Returns the referenced `Linear`, if it is a plain one.
#[doc(hidden)]
#[macro_export]
macro_rules! __plain_linear {
    ($layer:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::NotPlain as _;
        $crate::__private::Layer($layer).plain()
    }};
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::module::{Lora, Module, Quantizer};
    use burn::nn::LinearConfig;
    use burn::tensor::Device;
    use burn::tensor::quantization::{Calibration, QuantScheme};

    fn linear() -> Linear {
        LinearConfig::new(4, 4).init(&Device::flex())
    }

    /// Checks a layer whose type is a type parameter here.
    fn is_plain<T>(layer: &T) -> bool {
        __plain_linear!(layer).is_some()
    }

    #[test]
    fn a_linear_is_plain_unless_something_is_attached_to_its_weight() {
        let plain = linear();
        assert!(__plain_linear!(&plain).is_some());
        let adapted = linear().apply_lora(Lora::new(2, 4.0));
        assert!(__plain_linear!(&adapted).is_none());
        let mut quantizer = Quantizer::new(Calibration::MinMax, QuantScheme::default());
        let quantised = linear().quantize_weights(&mut quantizer);
        assert!(__plain_linear!(&quantised).is_none());
    }

    #[test]
    fn what_may_be_anything_is_not_plain() {
        let layer = Box::new(linear());
        assert!(!is_plain(&*layer));
        assert!(__plain_linear!(&layer).is_none());
    }
}
