//! What the fields and parameters that operands come from may be.

use burn::module::Param;
use burn::tensor::Tensor;

/// Defines a trait of the types that an operand is read from: those listed, and references to them.
macro_rules! readable_as {
    (
        $(#[$attribute:meta])*
        $Trait:ident { $(#[$doc:meta])* $read:ident -> $Value:ty }
        $( $Type:ty => $value:expr, )+
    ) => {
        $(#[$attribute])*
        pub trait $Trait {
            $(#[$doc])*
            fn $read(&self) -> $Value;
        }

        $(
            impl $Trait for $Type {
                fn $read(&self) -> $Value {
                    let value: fn(&Self) -> $Value = $value;
                    value(self)
                }
            }
        )+

        impl<T: $Trait + ?Sized> $Trait for &T {
            fn $read(&self) -> $Value {
                T::$read(self)
            }
        }
    };
}

readable_as! {
    /// The weight of a norm, as a field of the user's struct.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not the weight of an RMSNorm",
        label = "expected `Param<Tensor<1>>` or `Tensor<1>`"
    )]
    NormWeight {
        /// The weight, `[n]`.
        norm_weight -> Tensor<1>
    }
    Param<Tensor<1>> => Param::val,
    Tensor<1> => Tensor::clone,
}

readable_as! {
    /// The epsilon of a norm, as a field of the user's struct.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not the epsilon of an RMSNorm",
        label = "expected `f64` or `f32`"
    )]
    Epsilon {
        /// The value.
        epsilon -> f64
    }
    f64 => |value| *value,
    f32 => |value| f64::from(*value),
}

readable_as! {
    /// A run-time number of a kernel that is not an epsilon: a clamp's limit, a sparsity.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a number of a kernel",
        label = "expected `f64` or `f32`"
    )]
    Number {
        /// The value.
        number -> f64
    }
    f64 => |value| *value,
    f32 => |value| f64::from(*value),
}

readable_as! {
    /// A number of elements, as a field of the user's struct.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a number of elements",
        label = "expected `usize`"
    )]
    Count {
        /// The value.
        count -> usize
    }
    usize => |value| *value,
}

readable_as! {
    /// The lengths of the three sections of a multimodal rotary embedding, in pairs.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not the sections of a rotary position embedding",
        label = "expected `[usize; 3]` or `Vec<usize>`: pairs for time, height and width"
    )]
    SectionLengths {
        /// Time, height, width.
        lengths -> [usize; 3]
    }
    [usize; 3] => |lengths| *lengths,
    [usize] => three,
    Vec<usize> => |lengths| three(lengths),
}

fn three(lengths: &[usize]) -> [usize; 3] {
    lengths.try_into().unwrap_or_else(|_| {
        panic!("RoPE: there are three sections (time, height, width), not {lengths:?}")
    })
}

readable_as! {
    /// The correction of a router's choice, one value an expert.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not the correction of a router",
        label = "expected `Param<Tensor<1>>` or `Tensor<1>`, one value an expert"
    )]
    CorrectionBias {
        /// The values, `[experts]`.
        correction_bias -> Tensor<1>
    }
    Param<Tensor<1>> => Param::val,
    Tensor<1> => Tensor::clone,
}

/// A table of cosines or sines of three positions, `[3, b, s, w]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of a multimodal rotary position embedding",
    label = "expected `Tensor<4>`, [3, b, s, w], or a `Param` of one"
)]
pub trait SectionTable {
    /// The table.
    fn table(self) -> Tensor<4>;
}

impl SectionTable for Tensor<4> {
    fn table(self) -> Tensor<4> {
        self
    }
}

impl SectionTable for &Tensor<4> {
    fn table(self) -> Tensor<4> {
        self.clone()
    }
}

impl SectionTable for Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

impl SectionTable for &Param<Tensor<4>> {
    fn table(self) -> Tensor<4> {
        self.val()
    }
}

/// The weights of all experts of a mixture in one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the weights of all experts",
    label = "expected `Param<Tensor<3>>` or `Tensor<3>`, one matrix an expert",
    note = "experts that are layers of their own, in a list, are `experts = list`"
)]
pub trait ExpertWeights {
    /// The weights, experts along the first axis.
    fn expert_weights(&self) -> Tensor<3>;

    /// Initialises them if they are not.
    fn initialise(&self) {}
}

impl ExpertWeights for Tensor<3> {
    fn expert_weights(&self) -> Tensor<3> {
        self.clone()
    }
}

impl ExpertWeights for Param<Tensor<3>> {
    fn expert_weights(&self) -> Tensor<3> {
        self.val()
    }

    fn initialise(&self) {
        initialise(self);
    }
}

impl<T: ExpertWeights + ?Sized> ExpertWeights for &T {
    fn expert_weights(&self) -> Tensor<3> {
        T::expert_weights(self)
    }

    fn initialise(&self) {
        T::initialise(self);
    }
}

fn initialise<const D: usize>(param: &Param<Tensor<D>>) {
    if !param.is_initialized() {
        param.val();
    }
}

/// The biases of all experts of a mixture in one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the biases of all experts",
    label = "expected `Param<Tensor<2>>` or `Tensor<2>`, one row an expert"
)]
pub trait ExpertBiases {
    /// The biases, experts along the first axis.
    fn expert_biases(&self) -> Tensor<2>;

    /// Initialises them if they are not.
    fn initialise(&self) {}
}

impl ExpertBiases for Tensor<2> {
    fn expert_biases(&self) -> Tensor<2> {
        self.clone()
    }
}

impl ExpertBiases for Param<Tensor<2>> {
    fn expert_biases(&self) -> Tensor<2> {
        self.val()
    }

    fn initialise(&self) {
        initialise(self);
    }
}

impl<T: ExpertBiases + ?Sized> ExpertBiases for &T {
    fn expert_biases(&self) -> Tensor<2> {
        T::expert_biases(self)
    }

    fn initialise(&self) {
        T::initialise(self);
    }
}
