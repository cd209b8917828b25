use crate::device::{DeviceKind, Served, computes_in, device_computes_in};
use crate::mode::Mode;
use crate::registry::FloatType;
use crate::semantics::SemanticsKey;
use burn::backend::{DispatchDevice, DispatchTensor, DispatchTensorKind, TensorMetadata};
use burn::tensor::Device;
use serde::Serialize;
use std::fmt;

/// The properties of a call that a decision depends on, besides the site and the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The kind of device that holds the tensors.
    pub device: DeviceKind,
    /// The capability of the device; see [`DeviceKind::capability`].
    pub capability: u16,
    /// The operations that the device has kernels for.
    pub served: Served,
    /// The type of the tensors.
    pub tensors: TensorType,
    /// The mode, which states whether a gradient may be requested.
    pub mode: Mode,
    /// The value of the site's `when = …`, or true if it has none.
    pub condition: bool,
    /// True if a layer of the site is not a plain one, for example because it has an adapter. The layer then has to be
    /// called through its own `forward`.
    pub opaque: bool,
    /// True if experts of the site have low-rank adapters, which grouped kernels compute.
    pub adapted: bool,
}

/// The type of the tensors of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// All tensors have this type.
    Float(FloatType),
    /// All tensors have this type, in which their device does not compute.
    NotOnDevice(FloatType),
    /// The tensors have different types.
    Mixed,
    /// The tensors have a type that no kernel takes, such as a quantised one.
    Unsupported,
}

impl Query {
    /// Creates the query of a call with tensors of this type on `device`, at a site without a condition.
    pub fn new(device: &Device, tensors: TensorType, mode: Mode) -> Self {
        let place = DeviceKind::place(device);
        Self {
            device: place.kind,
            capability: place.capability,
            served: place.served,
            tensors: tensors.on(device.as_dispatch()),
            mode,
            condition: true,
            opaque: false,
            adapted: false,
        }
    }

    /// Returns the query of a call with these tensors. The device is that of the first tensor; the others must be on
    /// the same one, as for every operation of Burn. This allocates nothing for tensors on the CPU.
    #[inline]
    pub(crate) fn of_tensors(key: &SemanticsKey, tensors: &[&DispatchTensor]) -> Self {
        Self::of(
            tensors,
            key.mixes(tensors.iter().map(|tensor| tensor.dtype())),
        )
    }

    /// Returns the query of a call of an operation whose operands all have one dtype.
    pub(crate) fn of_one_dtype(tensors: &[&DispatchTensor]) -> Self {
        let dtype = tensors[0].dtype();
        let mixed = tensors.iter().any(|tensor| tensor.dtype() != dtype);
        Self::of(tensors, mixed)
    }

    #[inline]
    fn of(tensors: &[&DispatchTensor], mixed: bool) -> Self {
        let place = DeviceKind::of_tensor(&tensors[0].kind);
        let autodiff = tensors
            .iter()
            .any(|tensor| matches!(tensor.kind, DispatchTensorKind::Autodiff(_)));
        let tensors = match FloatType::from_dtype(tensors[0].dtype()) {
            _ if mixed => TensorType::Mixed,
            Some(float) if !device_computes_in(&tensors[0].kind, float.dtype()) => {
                TensorType::NotOnDevice(float)
            }
            Some(float) => TensorType::Float(float),
            None => TensorType::Unsupported,
        };
        Self {
            device: place.kind,
            capability: place.capability,
            served: place.served,
            tensors,
            mode: if autodiff {
                Mode::Training
            } else {
                Mode::Inference
            },
            condition: true,
            opaque: false,
            adapted: false,
        }
    }

    /// Packs the query into 40 bits. The highest of the lowest eight bits is free. The highest bit of the device's eight is
    /// no part of its code.
    #[inline]
    pub(super) const fn pack(self) -> u64 {
        let mode = match self.mode {
            Mode::Training => 1,
            Mode::Inference => 0,
        };
        (self.capability as u64) << 24
            | (self.adapted as u64) << 23
            | (self.device as u64) << 16
            | (self.tensors.code() as u64) << 8
            | (self.served.code() as u64) << 3
            | (self.opaque as u64) << 2
            | (self.condition as u64) << 1
            | mode
    }

    /// Reverses [`Query::pack`].
    pub(super) fn unpack(bits: u64) -> Option<Self> {
        let [flags, tensors, device, low, high, ..] = bits.to_le_bytes();
        Some(Self {
            device: DeviceKind::from_code(device & 0x7f)?,
            capability: u16::from_le_bytes([low, high]),
            served: Served::from_code(flags >> 3 & 0b1111),
            tensors: TensorType::from_code(tensors),
            mode: if flags & 1 == 1 {
                Mode::Training
            } else {
                Mode::Inference
            },
            condition: flags & 2 == 2,
            opaque: flags & 4 == 4,
            adapted: device & 0x80 == 0x80,
        })
    }
}

impl TensorType {
    const MIXED: u8 = 0xfe;
    const UNSUPPORTED: u8 = 0xff;
    /// Added to the code of a type that the device does not compute in.
    const NOT_ON_DEVICE: u8 = 0x40;

    /// Returns the type on a device that may not compute in it.
    fn on(self, device: &DispatchDevice) -> Self {
        match self {
            Self::Float(float) if !computes_in(device, float.dtype()) => Self::NotOnDevice(float),
            known => known,
        }
    }

    #[inline]
    const fn code(self) -> u8 {
        match self {
            Self::Float(float) => float as u8,
            Self::NotOnDevice(float) => Self::NOT_ON_DEVICE + float as u8,
            Self::Mixed => Self::MIXED,
            Self::Unsupported => Self::UNSUPPORTED,
        }
    }

    fn from_code(code: u8) -> Self {
        let types = FloatType::ALL.into_iter();
        let mut known = types
            .flat_map(|float| [Self::Float(float), Self::NotOnDevice(float)])
            .chain([Self::Mixed]);
        known
            .find(|tensors| tensors.code() == code)
            .unwrap_or(Self::Unsupported)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(float) | Self::NotOnDevice(float) => float.fmt(f),
            Self::Mixed => f.write_str("mixed"),
            Self::Unsupported => f.write_str("other"),
        }
    }
}

impl Serialize for TensorType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_pack_and_unpack() {
        for device in DeviceKind::ALL {
            for mode in [Mode::Training, Mode::Inference] {
                let floats = FloatType::ALL.map(TensorType::Float);
                let missing = FloatType::ALL.map(TensorType::NotOnDevice);
                for tensors in floats
                    .into_iter()
                    .chain(missing)
                    .chain([TensorType::Mixed, TensorType::Unsupported])
                {
                    let query = Query {
                        device,
                        capability: 0x8001,
                        served: Served::from_code(0b1001),
                        tensors,
                        mode,
                        condition: mode == Mode::Training,
                        opaque: device == DeviceKind::Npu,
                        adapted: device == DeviceKind::Cpu,
                    };
                    assert_eq!(Query::unpack(query.pack()), Some(query));
                    assert!(query.pack() < 1 << 40 && query.pack() & 0x80 == 0);
                }
            }
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod dtypes {
    use super::*;
    use crate::semantics::{MoeExpertsKey, RmsNormKey, RopeKey};
    use burn::tensor::{DType, Tensor};

    fn tensors<const N: usize>(dtypes: [DType; N]) -> [DispatchTensor; N] {
        dtypes.map(|dtype| Tensor::<1>::zeros([1], (&Device::flex(), dtype)).into_dispatch())
    }

    #[test]
    fn tables_may_be_in_the_dtype_of_the_computation() {
        let key = SemanticsKey::Rope(RopeKey::LLAMA);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        let (half, wide) = (DType::BF16, DType::F32);
        let bf16 = TensorType::Float(FloatType::Bf16);
        assert_eq!(of([half; 4]), bf16);
        assert_eq!(of([half, half, wide, wide]), bf16);
        assert_eq!(of([half, half, wide, half]), TensorType::Mixed);
        assert_eq!(of([half, wide, wide, wide]), TensorType::Mixed);
        assert_eq!(of([wide, wide, half, half]), TensorType::Mixed);
        assert_eq!(of([wide, wide, DType::F64, DType::F64]), TensorType::Mixed);
        assert_eq!(of([half, half, DType::F16, DType::F16]), TensorType::Mixed);
    }

    #[test]
    fn routing_weights_may_be_in_f32() {
        let key = SemanticsKey::MoeExperts(MoeExpertsKey::QWEN3);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        let (half, wide) = (DType::BF16, DType::F32);
        let bf16 = TensorType::Float(FloatType::Bf16);
        assert_eq!(of([half, wide, half, half]), bf16);
        assert_eq!(of([half, half, half, half]), bf16);
        assert_eq!(of([half, half, wide, half]), TensorType::Mixed);
        assert_eq!(of([half, DType::F16, half, half]), TensorType::Mixed);
        let of = |dtype| Query::of_tensors(&key, &tensors([dtype]).each_ref()).tensors;
        assert_eq!(of(half), bf16);
    }

    #[test]
    fn other_operands_have_one_dtype() {
        let key = SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        assert_eq!(of([DType::BF16, DType::F32]), TensorType::Mixed);
        assert_eq!(of([DType::F32; 2]), TensorType::Float(FloatType::F32));
    }
}
