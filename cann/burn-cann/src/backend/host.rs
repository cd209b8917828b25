//! Transfers of operands to the host and of results back to the device.

use std::ops::Range;

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward,
    DeformConvOptions, GridSampleOptions, InterpolateOptions, MaxPool2dBackward,
    MaxPool2dWithIndices, PadMode, UnfoldOptions,
};
use burn_backend::quantization::QuantizationParametersPrimitive;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, Distribution, FloatDType, IntDType, Scalar, Shape, Slice};
use burn_flex::{Flex, FlexDevice, FlexQTensor, FlexTensor};
use burn_std::QuantScheme;

use super::CannBackend;
use super::device::{CannDevice, Place};
use super::error::Result;
use super::tensor::{CannQTensor, CannTensor};
use super::transfer;

/// An argument of an operation.
pub(super) trait Operand {
    /// The type that Flex takes for it.
    type Host;
    /// The type that an operation on the device takes for it.
    type Lent<'a>
    where
        Self: 'a;
    /// Returns the argument on the host. Waits for the device if it is a tensor.
    fn host(&self) -> Result<Self::Host>;
    /// Returns the argument for the device.
    fn lend(&self) -> Self::Lent<'_>;
    /// Returns the place of the argument, if it has one.
    fn place(&self) -> Result<Option<Place>> {
        Ok(None)
    }
}

/// A result on the device that the host computed.
pub(super) trait Returned<H>: Sized {
    /// Copies the result to the device.
    fn from_host(host: H, place: &Place) -> Result<Self>;
}

macro_rules! plain {
    ($($type:ty),+ $(,)?) => {
        $(impl Operand for $type {
            type Host = Self;
            type Lent<'a> = Self where Self: 'a;

            fn host(&self) -> Result<Self> {
                Ok(self.clone())
            }

            fn lend(&self) -> Self {
                self.clone()
            }
        })+
    };
}

#[allow(clippy::clone_on_copy)]
mod plain {
    use super::*;

    plain! {
        bool, usize, f64, [usize; 2], [usize; 3], &[usize], &[Slice], &[(usize, usize)], Range<i64>, Scalar,
        Shape, FloatDType, IntDType, BoolDType, Distribution, IndexingUpdateOp, PadMode, &QuantScheme,
        ConvOptions<1>, ConvOptions<2>, ConvOptions<3>,
        ConvTransposeOptions<1>, ConvTransposeOptions<2>, ConvTransposeOptions<3>,
        DeformConvOptions<2>, UnfoldOptions, InterpolateOptions, GridSampleOptions, AttentionModuleOptions,
    }
}

impl Operand for &CannDevice {
    type Host = &'static FlexDevice;
    type Lent<'a>
        = CannDevice
    where
        Self: 'a;

    fn host(&self) -> Result<Self::Host> {
        Ok(&FlexDevice)
    }

    fn lend(&self) -> CannDevice {
        **self
    }

    fn place(&self) -> Result<Option<Place>> {
        CannDevice::place(**self).map(Some)
    }
}

impl Operand for CannTensor {
    type Host = FlexTensor;
    type Lent<'a>
        = &'a Self
    where
        Self: 'a;

    fn host(&self) -> Result<FlexTensor> {
        Ok(transfer::read(self)?)
    }

    fn lend(&self) -> &Self {
        self
    }

    fn place(&self) -> Result<Option<Place>> {
        Ok(Some(self.place.clone()))
    }
}

impl Operand for CannQTensor {
    type Host = FlexQTensor;
    type Lent<'a>
        = &'a Self
    where
        Self: 'a;

    fn host(&self) -> Result<FlexQTensor> {
        Ok(transfer::read_quantised(self)?)
    }

    fn lend(&self) -> &Self {
        self
    }

    fn place(&self) -> Result<Option<Place>> {
        Ok(Some(self.place.clone()))
    }
}

impl Operand for Option<CannTensor> {
    type Host = Option<FlexTensor>;
    type Lent<'a>
        = Option<&'a CannTensor>
    where
        Self: 'a;

    fn host(&self) -> Result<Self::Host> {
        self.as_ref().map(Operand::host).transpose()
    }

    fn lend(&self) -> Option<&CannTensor> {
        self.as_ref()
    }
}

impl Operand for Vec<CannTensor> {
    type Host = Vec<FlexTensor>;
    type Lent<'a>
        = &'a [CannTensor]
    where
        Self: 'a;

    fn host(&self) -> Result<Self::Host> {
        self.iter().map(Operand::host).collect()
    }

    fn lend(&self) -> &[CannTensor] {
        self
    }

    fn place(&self) -> Result<Option<Place>> {
        Ok(self.first().map(|tensor| tensor.place.clone()))
    }
}

impl Operand for QuantizationParametersPrimitive<CannBackend> {
    type Host = QuantizationParametersPrimitive<Flex>;
    type Lent<'a>
        = &'a Self
    where
        Self: 'a;

    fn host(&self) -> Result<Self::Host> {
        Ok(QuantizationParametersPrimitive {
            scales: self.scales.host()?,
            global: self.global.host()?,
        })
    }

    fn lend(&self) -> &Self {
        self
    }
}

impl Returned<FlexTensor> for CannTensor {
    fn from_host(host: FlexTensor, place: &Place) -> Result<Self> {
        transfer::write(host.into_data(), place)
    }
}

impl Returned<FlexQTensor> for CannQTensor {
    fn from_host(host: FlexQTensor, place: &Place) -> Result<Self> {
        transfer::write_quantised(host, place)
    }
}

impl Returned<Option<FlexTensor>> for Option<CannTensor> {
    fn from_host(host: Option<FlexTensor>, place: &Place) -> Result<Self> {
        host.map(|host| CannTensor::from_host(host, place))
            .transpose()
    }
}

impl<A: Returned<HA>, B: Returned<HB>, HA, HB> Returned<(HA, HB)> for (A, B) {
    fn from_host(host: (HA, HB), place: &Place) -> Result<Self> {
        Ok((A::from_host(host.0, place)?, B::from_host(host.1, place)?))
    }
}

macro_rules! returned {
    ($($name:ident { $($field:ident),+ })+) => {
        $(impl Returned<$name<Flex>> for $name<CannBackend> {
            fn from_host(host: $name<Flex>, place: &Place) -> Result<Self> {
                Ok(Self { $($field: Returned::from_host(host.$field, place)?),+ })
            }
        })+
    };
}

returned! {
    MaxPool2dWithIndices { output, indices }
    MaxPool2dBackward { x_grad }
    DeformConv2dBackward { x_grad, offset_grad, weight_grad, mask_grad, bias_grad }
}
